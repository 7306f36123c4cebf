//! Why a request failed, read in one place: status codes and broken connections into what a controller can act on, and into
//! one plain sentence for people.

use std::error::Error;

use hyper_util::client::legacy::Error as ConnectionError;

use crate::lease::NotLeading;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The object changed meanwhile, another object has its name, or its UID is another one (409).
    #[error("{reason}")]
    Conflict {
        /// In the words of the API server.
        reason: String,
    },
    /// The object does not exist (404, 410).
    #[error("{reason}")]
    Gone {
        /// In the words of the API server.
        reason: String,
    },
    /// The API server denies the request: it is invalid, or an admission rule or a disruption budget forbids it. The same
    /// request is denied again until something else changes.
    #[error("{reason}")]
    Denied {
        /// In the words of the API server.
        reason: String,
    },
    /// The account may not do this, or an admission plugin forbids it (403).
    #[error("{}{reason}", if is_about_rights(reason) { "missing permission: " } else { "" })]
    Forbidden {
        /// In the words of the API server.
        reason: String,
    },
    /// The API server does not accept our credentials (401).
    #[error(
        "the API server rejected the credentials: check the user of the kubeconfig, or the token of the service account"
    )]
    Unauthenticated,
    /// The API server asks to come back later (429).
    #[error("the API server asks to try later: {reason}")]
    Throttled {
        /// In the words of the API server.
        reason: String,
    },
    /// The API server failed by itself (500, 502, 503): the same request may succeed later.
    #[error("the API server is not able to answer now: {reason}")]
    Overloaded {
        /// In the words of the API server.
        reason: String,
    },
    /// No connection to the API server: nothing was done.
    #[error("cannot reach the API server: {reason}")]
    Unreachable {
        /// Why there is no connection.
        reason: String,
    },
    /// The request was sent and no answer came: look before repeating it.
    #[error("the API server did not answer in time; the request may have been executed")]
    TimedOutMaybeDone,
    /// This process does not lead: nothing was sent.
    #[error("not the leader: nothing was written")]
    NotLeading,
    /// The request or its answer is not what the API describes.
    #[error("cannot read the answer of the API server: {reason}")]
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
}

impl Failure {
    /// The same request may succeed later without anything else changing.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Conflict { .. }
                | Self::Throttled { .. }
                | Self::Overloaded { .. }
                | Self::Unreachable { .. }
                | Self::TimedOutMaybeDone
                | Self::NotLeading
                | Self::Unauthenticated
                | Self::Unreadable { .. }
        )
    }

    /// The reason lies in the API server or the connection, not in the objects that the request is about.
    pub fn is_the_servers(&self) -> bool {
        self.may_pass() && !matches!(self, Self::Conflict { .. })
    }

    /// Nothing was done, and the reason lies in the server's load or the connection. A server that failed may have done the
    /// work before: only an idempotent request is repeated then.
    pub(crate) fn is_worth_repeating(&self, may_be_done_twice: bool) -> bool {
        match self {
            Self::Throttled { .. } | Self::Unreachable { .. } => true,
            Self::Overloaded { .. } => may_be_done_twice,
            _ => false,
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => of_status(&status),
            kube::Error::Service(error) => of_connection(&*error),
            kube::Error::HyperError(error) => of_connection(&error),
            kube::Error::Auth(_) => Self::Unauthenticated,
            error => Self::Unreadable { reason: error.to_string() },
        }
    }
}

/// An error of the API server as one plain sentence.
pub fn sentence(error: kube::Error) -> String {
    Failure::from(error).to_string()
}

fn of_status(status: &kube::core::Status) -> Failure {
    let reason = if status.message.is_empty() {
        format!("status {} {}", status.code, status.reason).trim_end().to_owned()
    } else {
        status.message.clone()
    };
    match status.code {
        401 => Failure::Unauthenticated,
        403 => Failure::Forbidden { reason },
        404 | 410 => Failure::Gone { reason },
        408 | 504 => Failure::TimedOutMaybeDone,
        409 => Failure::Conflict { reason },
        429 => Failure::Throttled { reason },
        500..=599 => Failure::Overloaded { reason },
        _ => Failure::Denied { reason },
    }
}

/// Admission plugins answer 403 too; the sentence about rights always names a user who cannot do something.
fn is_about_rights(reason: &str) -> bool {
    reason.contains("User ") && reason.contains(" cannot ")
}

/// An error and what lies below it.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

fn of_connection(error: &(dyn Error + 'static)) -> Failure {
    if chain(error).any(<dyn Error>::is::<NotLeading>) {
        return Failure::NotLeading;
    }
    let connection = chain(error).find_map(|error| error.downcast_ref::<ConnectionError>());
    if connection.is_some_and(ConnectionError::is_connect) {
        let last = chain(error).last().map(ToString::to_string);
        return Failure::Unreachable { reason: last.unwrap_or_default() };
    }
    Failure::TimedOutMaybeDone
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn read(code: u16, message: &str) -> Failure {
        kube::Error::Api(Status::failure(message, "").with_code(code).boxed()).into()
    }

    #[test]
    fn status_codes_have_one_reading() {
        let reason = || "why".to_owned();
        let cases = [
            (400, Failure::Denied { reason: reason() }),
            (401, Failure::Unauthenticated),
            (403, Failure::Forbidden { reason: reason() }),
            (404, Failure::Gone { reason: reason() }),
            (408, Failure::TimedOutMaybeDone),
            (409, Failure::Conflict { reason: reason() }),
            (410, Failure::Gone { reason: reason() }),
            (422, Failure::Denied { reason: reason() }),
            (429, Failure::Throttled { reason: reason() }),
            (500, Failure::Overloaded { reason: reason() }),
            (503, Failure::Overloaded { reason: reason() }),
            (504, Failure::TimedOutMaybeDone),
        ];
        for (code, failure) in cases {
            assert_eq!(read(code, "why"), failure, "{code}");
        }
    }

    #[test]
    fn missing_permission_is_one_sentence() {
        let message =
            "pods \"p\" is forbidden: User \"kai\" cannot create resource \"pods/binding\"";
        let sentence = read(403, message).to_string();
        assert_eq!(sentence, format!("missing permission: {message}"));
    }

    #[test]
    fn sentences_show_no_debug_output() {
        for code in [400, 401, 403, 404, 409, 410, 422, 429, 500, 504] {
            let sentence = read(code, "quota exceeded").to_string();
            assert!(!sentence.contains("Status {") && !sentence.contains("ApiError"), "{sentence}");
        }
        assert_eq!(read(409, "").to_string(), "status 409");
    }

    #[tokio::test]
    async fn closed_port_is_an_unreachable_server() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let mut config =
            kube::Config::new(format!("http://{address}").parse().expect("an address"));
        config.default_retry = false;
        let client = kube::Client::try_from(config).expect("a client");
        let failure = crate::write::read::<serde_json::Value>(&client, "/api/v1/pods").await;
        let sentence = failure.expect_err("no server listens").to_string();
        assert!(sentence.starts_with("cannot reach the API server: "), "{sentence}");
        assert!(sentence.contains("refused"), "{sentence}");
    }

    #[test]
    fn broken_connections_may_have_done_the_work() {
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let failure = Failure::from(kube::Error::Service(Box::new(reset)));
        assert_eq!(failure, Failure::TimedOutMaybeDone);
        let failure = Failure::from(kube::Error::Service(Box::new(NotLeading)));
        assert_eq!(failure, Failure::NotLeading);
    }
}
