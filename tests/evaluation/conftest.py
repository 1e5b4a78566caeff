from tests.support.messages_server import running_server as running_server  # a fixture
