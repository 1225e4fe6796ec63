//! Responses of web servers without a length: of pages that are made as they are sent, in chunks or
//! until the connection ends. The client of stores refuses them, though it reads their bodies to
//! the end; so they get the length 0, which nothing but the size of the file comes from.

use std::pin::Pin;

use http::Method;
use http::header::{CONTENT_LENGTH, HeaderValue};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

/// Makes clients that take responses without a length.
#[derive(Debug)]
pub(super) struct AnyLengthConnector;

impl HttpConnector for AnyLengthConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(AnyLength(client)))
    }
}

#[derive(Debug)]
struct AnyLength(HttpClient);

impl HttpService for AnyLength {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            // The length of a response without a body is the size of the file.
            let has_body = request.method() == Method::GET;
            let mut response = self.0.execute(request).await?;
            let is_unknown = !response.headers().contains_key(CONTENT_LENGTH);
            if has_body && is_unknown && response.status().is_success() {
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
            Ok(response)
        })
    }
}
