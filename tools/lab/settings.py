"""Settings of the Jupyter server that `make lab` starts; JupyterLab reads this file itself."""

import sys
from pathlib import Path, PurePosixPath

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.lab.saved_notebook import keep_pages


class PromptConnection(ZMQChannelsWebsocketConnection):
    """A kernel connection that sends every message at once.

    By default the messages of one slider step wait about 40 ms for each other's acknowledgement
    (Nagle's algorithm), which limits a slider to some 22 pictures a second.
    """

    def connect(self):
        """Connect with TCP_NODELAY set."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()


class KeptLessons(AsyncLargeFileManager):
    """A view of the files in which the lessons in ``notebooks/`` can be run but not saved.

    Learners save their copies; a lesson itself is changed by ``make notebooks`` only.
    """

    def __init__(self, **settings):
        super().__init__(**settings)
        self.register_pre_save_hook(pre_save)

    def is_writable(self, path):
        """Return whether JupyterLab may save a file."""
        place = PurePosixPath(path.strip("/"))
        is_lesson = str(place.parent) == "notebooks" and place.suffix == ".ipynb"
        return not is_lesson and super().is_writable(path)


def pre_save(model, **_):
    """Save a notebook so that it can be shown without its kernel."""
    if model["type"] == "notebook":
        keep_pages(model["content"])


c = get_config()  # noqa: F821 - Jupyter provides it
c.ServerApp.kernel_websocket_connection_class = PromptConnection
c.ServerApp.contents_manager_class = KeptLessons
c.ServerApp.port_retries = 0  # tools/lab.py has found a free port
c.ServerApp.jpserver_extensions = {"jupyterlab_jupytext": False}
# Pings keep connections alive through proxies, and there is none within one machine. With pings,
# the server hands their limits to tornado in milliseconds, and tornado complains about the seconds.
c.ServerApp.tornado_settings = {"ws_ping_interval": 0}
c.KernelManager.transport_encryption = "auto"  # of what the server and a kernel say to each other
c.LanguageServerManager.autodetect = False  # it runs npm, which writes into the home folder
c.LabApp.extension_manager = "readonly"  # the list of extensions would come from the network
c.Application.log_level = "WARN"
