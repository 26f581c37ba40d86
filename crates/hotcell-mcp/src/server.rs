//! One connection: what its client may ask, and the box that answers.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, Weak};

use hotcell::policy::NetworkMode;
use hotcell::text::Printable;
use hotcell::tools::Toolbox;
use http::request::Parts;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation,
    InitializeRequestParams, InitializeResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::http::{Busy, Seat};
use crate::progress::Relay;
use crate::{Host, convert, resources};

/// The methods that are answered; of these, only the parameters can be wrong.
const METHODS: [&str; 7] =
    ["initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"];

/// The server of one connection. Cheap to clone: all clones have the same box.
#[derive(Debug, Clone)]
pub struct Server {
    connection: Arc<Connection>,
}

#[derive(Debug)]
struct Connection {
    host: Arc<Host>,
    kind: Kind,
    toolbox: OnceCell<Toolbox>,
    audit: Audit,
    ended: CancellationToken,
}

#[derive(Debug)]
enum Kind {
    /// Two streams: the connection is all that there is.
    Streams,
    /// A session over HTTP, which begins with a greeting.
    Session(OnceLock<Arc<Seat>>),
}

impl Server {
    /// For one connection. Its box is made when it is needed first.
    pub fn new(host: Arc<Host>) -> Self {
        Self::of(host, Kind::Streams)
    }

    /// For one session over HTTP.
    pub(crate) fn in_session(host: Arc<Host>) -> Self {
        Self::of(host, Kind::Session(OnceLock::new()))
    }

    fn of(host: Arc<Host>, kind: Kind) -> Self {
        let (toolbox, audit, ended) = (OnceCell::new(), Audit::default(), CancellationToken::new());
        Self { connection: Arc::new(Connection { host, kind, toolbox, audit, ended }) }
    }

    /// Ends the calls that run and removes the box. Nothing can be called after that.
    pub async fn close(&self) {
        self.connection.ended.cancel();
        if let Some(toolbox) = self.connection.toolbox.get() {
            toolbox.close().await;
        }
    }

    /// Whether something runs in its box that nobody waits for at the moment.
    pub(crate) fn runs_in_background(&self) -> bool {
        self.connection.toolbox.get().is_some_and(Toolbox::runs_in_background)
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer { connection: Arc::downgrade(&self.connection) }
    }

    async fn toolbox(&self) -> Result<&Toolbox, ErrorData> {
        let Connection { host, toolbox, ended, .. } = &*self.connection;
        if ended.is_cancelled() {
            return Err(ErrorData::invalid_request("the session has ended", None));
        }
        toolbox.get_or_try_init(|| host.open()).await
    }

    /// Keeps a session from ending for being idle. What has no session has no box.
    fn busy(&self) -> Result<Option<Busy>, ErrorData> {
        match &self.connection.kind {
            Kind::Streams => Ok(None),
            Kind::Session(seat) => match seat.get() {
                Some(seat) => Ok(Some(seat.busy())),
                None => Err(ErrorData::invalid_request("there is no session; begin one with `initialize`", None)),
            },
        }
    }

    /// What a request asks for, unless it is cancelled or the session ends first.
    async fn answer<T>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        let _busy = self.busy()?;
        tokio::select! {
            biased;
            // Dropping a call kills what it had started.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
            () = self.connection.ended.cancelled() => Err(ErrorData::invalid_request("the session has ended", None)),
            answer = work => answer,
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let toolbox = self.toolbox().await?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let running = self.connection.audit.start(&request.name);
        let result = match context.meta.get_progress_token() {
            None => toolbox.call(&request.name, arguments, None).await,
            Some(token) => {
                let (listener, relay) = Relay::new(token, context.peer.clone());
                tokio::select! {
                    biased;
                    result = toolbox.call(&request.name, arguments, Some(listener)) => result,
                    () = relay.run() => return Err(ErrorData::internal_error("the call was lost", None)),
                }
            }
        };
        running.end(&result);
        Ok(convert::result(result).into())
    }
}

/// A server that does not keep its box.
#[derive(Debug)]
pub(crate) struct WeakServer {
    connection: Weak<Connection>,
}

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<Server> {
        Some(Server { connection: self.connection.upgrade()? })
    }
}

impl Drop for Connection {
    /// However a connection ends, its box does too.
    fn drop(&mut self) {
        if let (Some(toolbox), Ok(runtime)) = (self.toolbox.take(), Handle::try_current()) {
            runtime.spawn(async move { toolbox.close().await });
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let name = Implementation::new("hotcell", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(name.with_title("Hotcell"))
            .with_instructions(self.connection.host.instructions())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let newest = match self.connection.kind {
            Kind::Streams => ProtocolVersion::LATEST,
            // Later ones have no sessions over HTTP.
            Kind::Session(_) => ProtocolVersion::LATEST_WITH_INITIALIZE,
        };
        Cow::Borrowed(ProtocolVersion::known_up_to(&newest))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if let Kind::Session(place) = &self.connection.kind {
            let seat = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Arc<Seat>>());
            let seat = seat.ok_or_else(|| ErrorData::internal_error("there is no place for a session", None))?;
            seat.take(self);
            let _ = place.set(Arc::clone(seat));
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let open_world = self.connection.host.network() != NetworkMode::Deny;
        let definitions = self.answer(&context, async { Ok(self.toolbox().await?.definitions()) }).await?;
        let tools = definitions.into_iter().map(|definition| convert::tool(definition, open_world)).collect();
        Ok(ListToolsResult { tools, ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.answer(&context, self.call(request, &context)).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.answer(&context, async { Ok(resources::list(self.toolbox().await?).await) }).await?;
        Ok(ListResourcesResult { resources, ..ListResourcesResult::default() })
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.answer(&context, async { Ok(resources::templates(self.toolbox().await?)) }).await?;
        Ok(ListResourceTemplatesResult { resource_templates: templates, ..ListResourceTemplatesResult::default() })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = async { resources::read(self.toolbox().await?, &self.connection.audit, &request.uri).await };
        Ok(self.answer(&context, read).await?.into())
    }

    /// What rmcp could not make sense of: a method that nobody knows, or one with parameters that are not its own.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = Printable(&request.method).to_string();
        if METHODS.contains(&method.as_str()) {
            return Err(ErrorData::invalid_params(format!("the parameters of `{method}` are not what it takes"), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None))
    }
}
