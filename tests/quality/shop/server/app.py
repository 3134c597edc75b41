"""The web application: routes, middleware and start-up."""

from server.middleware import add_request_id, limit_rate
from server.routes import register_routes


class Application:
    """Holds the routes and passes each request through the middleware."""

    def __init__(self, settings):
        self.settings = settings
        self.middleware = [add_request_id, limit_rate]
        self.routes = register_routes()

    def handle(self, request):
        """Dispatch one request: middleware first, then the route that matches."""
        for step in self.middleware:
            request = step(request)
        return self.routes.match(request.path)(request)
