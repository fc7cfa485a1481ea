"""Every verb of the command line, by its name.

Touches: nothing before a verb is carried out.
"""

from __future__ import annotations

import typer

from lakeward.cli.daemon.config_commands import config_app
from lakeward.cli.daemon.control_commands import register as register_controls
from lakeward.cli.daemon.reload_command import reload as reload_daemon
from lakeward.cli.daemon.run_command import run as run_daemon
from lakeward.cli.daemon.state_commands import state_app
from lakeward.cli.explain_command import explain as explain_table
from lakeward.cli.index.verbs import index_app
from lakeward.cli.inspect_command import inspect as inspect_table
from lakeward.cli.options.store import DebugOption, JsonOption, print_json
from lakeward.cli.plan_command import plan as plan_table
from lakeward.cli.services.archive_command import archive as archive_table
from lakeward.cli.services.clean_command import clean as clean_table
from lakeward.cli.services.compact_command import compact as compact_table
from lakeward.cli.services.layout_command import convert as convert_table
from lakeward.cli.services.metadata_commands import metadata_app
from lakeward.cli.services.orphan_commands import orphans_app
from lakeward.cli.services.quarantine_commands import quarantine_app
from lakeward.cli.services.restore_command import restore as restore_table
from lakeward.cli.services.rollback_command import rollback as roll_back_writes
from lakeward.cli.services.savepoint_commands import savepoint_app
from lakeward.cli.services.service_command import service as service_table
from lakeward.cli.services.unschedule_command import unschedule as unschedule_plan
from lakeward.cli.services.version_commands import downgrade as downgrade_table
from lakeward.cli.services.version_commands import upgrade as upgrade_table
from lakeward.cli.table_commands import table_app
from lakeward.cli.verb_group import Verb, new_group
from lakeward.cli.verify_command import verify as verify_table
from lakeward.cli.warm_command import warm as warm_kernels
from lakeward.cli.write_command import write as write_rows

app = new_group(
    "Table services for Apache Hudi tables: inspect a table, compact, clean and archive it, go back, and know why."
)


app.command(name="inspect")(inspect_table)
app.command(name="plan")(plan_table)
app.command(name="explain")(explain_table)
app.command(name="compact")(compact_table)
app.command(name="archive")(archive_table)
app.command(name="clean")(clean_table)
app.command(name="unschedule")(unschedule_plan)
app.command(name="rollback")(roll_back_writes)
app.command(name="service")(service_table)
app.command(name="restore")(restore_table)
app.command(name="verify")(verify_table)
app.command(name="write")(write_rows)
app.command(name="warm", cls=Verb)(warm_kernels)
app.command(name="run")(run_daemon)
app.command(name="reload")(reload_daemon)
table_app.command(name="upgrade")(upgrade_table)
table_app.command(name="downgrade")(downgrade_table)
table_app.command(name="convert")(convert_table)
app.add_typer(table_app, name="table")
app.add_typer(metadata_app, name="metadata")
app.add_typer(index_app, name="index")
app.add_typer(savepoint_app, name="savepoint")
app.add_typer(quarantine_app, name="quarantine")
app.add_typer(orphans_app, name="orphans")
app.add_typer(config_app, name="config")
app.add_typer(state_app, name="state")


@app.command(cls=Verb)
def version(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Print the versions of Lakeward and of what must agree on every machine."""
    from lakeward.engine.dispatch.dispatcher import own_versions

    versions = own_versions()
    if as_json:
        print_json({"python": versions.python, **dict(versions.packages)})
    else:
        for name, number in (*versions.packages, ("python", versions.python)):
            typer.echo(f"{name} {number}")


register_controls(app)
