//! One connection: what its client may ask, and the box that answers.

use std::borrow::Cow;
use std::sync::Arc;

use hotcell::policy::NetworkMode;
use hotcell::tools::Toolbox;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::audit::Audit;
use crate::progress::Relay;
use crate::{Host, convert};

/// The server of one connection. Cheap to clone: all clones have the same box.
#[derive(Debug, Clone)]
pub struct Server {
    connection: Arc<Connection>,
}

#[derive(Debug)]
struct Connection {
    host: Arc<Host>,
    /// The newest version of the protocol that is spoken.
    newest: ProtocolVersion,
    toolbox: OnceCell<Toolbox>,
    audit: Audit,
}

impl Server {
    /// For one connection. Its box is made when it is needed first.
    pub fn new(host: Arc<Host>) -> Self {
        Self::up_to(host, ProtocolVersion::LATEST)
    }

    fn up_to(host: Arc<Host>, newest: ProtocolVersion) -> Self {
        let connection = Connection { host, newest, toolbox: OnceCell::new(), audit: Audit::default() };
        Self { connection: Arc::new(connection) }
    }

    /// Removes the box, if there is one.
    pub async fn close(&self) {
        if let Some(toolbox) = self.connection.toolbox.get() {
            toolbox.close().await;
        }
    }

    async fn toolbox(&self) -> Result<&Toolbox, ErrorData> {
        let Connection { host, toolbox, .. } = &*self.connection;
        toolbox
            .get_or_try_init(|| host.open())
            .await
            .map_err(|error| ErrorData::internal_error(format!("the box could not be made: {error}"), None))
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

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let name = Implementation::new("hotcell", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(name.with_title("Hotcell"))
            .with_instructions(self.connection.host.instructions())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&self.connection.newest))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let open_world = self.connection.host.network() != NetworkMode::Deny;
        let definitions = self.toolbox().await?.definitions();
        let tools = definitions.into_iter().map(|definition| convert::tool(definition, open_world)).collect();
        Ok(ListToolsResult { tools, ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tokio::select! {
            biased;
            // Dropping the call kills what it had started.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
            result = self.call(request, &context) => result,
        }
    }
}
