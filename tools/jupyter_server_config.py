"""Settings of the Jupyter server that `make lab` starts; JupyterLab reads this file itself."""

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class PromptConnection(ZMQChannelsWebsocketConnection):
    """A kernel connection that sends every message at once.

    Without it the messages of one slider step wait about 40 ms for each other's acknowledgement
    (Nagle's algorithm), which caps sliders at some 22 pictures a second.
    """

    def connect(self):
        """Connect with TCP_NODELAY set."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()


c = get_config()  # noqa: F821 - Jupyter provides it
c.ServerApp.kernel_websocket_connection_class = PromptConnection
c.ServerApp.port_retries = 0  # tools/lab.py has looked for a free port
c.ServerApp.jpserver_extensions = {"jupyterlab_jupytext": False}
c.LanguageServerManager.autodetect = False  # it runs npm, which writes into the home folder
c.LabApp.custom_css = True  # written by tools/_server.py
c.LabApp.extension_manager = "readonly"  # the list of extensions comes from the network
c.Application.log_level = "WARN"
