"""Settings of the JupyterHub that `make bench` measures; the hub reads this file itself."""

import os
import sys

VALUES = os.environ  # filled by tools/bench/classroom.py
SCOPES = ["admin:users", "admin:servers", "admin:server_state", "tokens"]

c = get_config()  # noqa: F821 - JupyterHub provides it
c.JupyterHub.bind_url = VALUES["CLASS_SITE"]
c.JupyterHub.hub_bind_url = VALUES["CLASS_HUB"]
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.services = [{"name": "teacher", "api_token": VALUES["CONFIGPROXY_AUTH_TOKEN"]}]
c.JupyterHub.load_roles = [{"name": "teacher", "scopes": SCOPES, "services": ["teacher"]}]
# The proxy and the servers of the users run on while the hub is restarted.
c.JupyterHub.cleanup_servers = False
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = VALUES["CLASS_PROXY"]
c.SimpleLocalProcessSpawner.home_dir_template = VALUES["CLASS_HOMES"] + "/{username}"
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
# Thirty kernels that start at once would take each other's ports.
c.Spawner.args = ["--KernelManager.transport=ipc"]
if os.geteuid() == 0:  # in a container; Jupyter refuses to run as root unless it is told to
    c.Spawner.args += ["--allow-root"]
c.Spawner.start_timeout = c.Spawner.http_timeout = 600
c.Spawner.environment = {"OMP_NUM_THREADS": "1"}  # as TEACHING.md advises for a hub
