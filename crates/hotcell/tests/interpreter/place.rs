//! A box and an interpreter to try code in.

use std::time::Duration;

use hotcell::interpreter::{Code, CodeOutput, CodeStatus, Interpreter, Languages};
use hotcell::policy::PolicyBuilder;
use hotcell::{Engine, Policy, Sandbox};

use super::common;

pub(crate) struct Place {
    pub(crate) engine: Engine,
    pub(crate) sandbox: Box<dyn Sandbox>,
    pub(crate) interpreter: Interpreter,
}

impl Place {
    /// None, after listing the test as skipped, where there is no box or no such program.
    pub(crate) async fn open(test: &str, program: &str) -> Option<Self> {
        Self::with(test, program, Policy::builder()).await
    }

    pub(crate) async fn with(test: &str, program: &str, policy: PolicyBuilder) -> Option<Self> {
        let test = format!("interpreter {test}");
        if !common::has_program(&test, &format!("/usr/bin/{program}")) {
            return None;
        }
        let engine = common::engine(&test).await?;
        let sandbox = match engine.create(&policy.build().unwrap()).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                common::skip(&test, &error.to_string().replace('\n', " "));
                return None;
            }
        };
        Some(Self { engine, sandbox, interpreter: Interpreter::new(Languages::default()) })
    }

    pub(crate) async fn run(&self, code: Code) -> CodeOutput {
        let run = self.interpreter.run(&*self.sandbox, &code, &|_| {});
        tokio::time::timeout(6 * common::LONG, run).await.unwrap().unwrap()
    }

    /// Code in the context `main`.
    pub(crate) async fn tell(&self, language: &str, source: &str) -> CodeOutput {
        self.run(Code::new(language, source).context("main")).await
    }

    /// What code in the context `main` writes; it must reach its end.
    #[track_caller]
    pub(crate) fn said(output: &CodeOutput) -> String {
        assert_eq!(output.status, CodeStatus::Done, "{output:?}");
        common::text(&output.stdout)
    }

    pub(crate) async fn close(self) {
        self.interpreter.close().await;
        self.sandbox.destroy().await.unwrap();
        self.engine.close().await;
    }
}

/// The text of the value of the last expression.
#[track_caller]
pub(crate) fn value(output: &CodeOutput) -> &str {
    let found = output.results.iter().find(|result| result.is_value);
    match found {
        Some(result) => &result.data["text/plain"],
        None => panic!("no value: {output:?}"),
    }
}

/// A time limit that code which never ends runs into.
pub(crate) const SHORT: Duration = Duration::from_secs(2);
