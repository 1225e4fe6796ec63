//! What a studio must bear: see docs/security.md.

use crate::testing::Site;

#[test]
fn the_token_is_no_cookie_and_no_cookie_is_a_token() {
    let site = Site::new();
    let port = site.port();
    let (token, first, second) = (site.token(), site.sign_in(), site.sign_in());
    let value = |cookie: &str| cookie.split_once('=').unwrap().1.to_string();
    assert!(value(&first) != value(&second) && value(&first) != token);
    let status = |header: String| {
        let headers = format!("Host: 127.0.0.1:{port}\r\n{header}\r\n");
        site.send("GET /api/session", &headers, "").status
    };
    let bearer = |secret: &str| status(format!("Authorization: Bearer {secret}"));
    let cookie = |secret: &str| status(format!("Cookie: euphrates_{port}={secret}"));
    assert_eq!((bearer(&token), cookie(&value(&first)), cookie(&value(&second))), (200, 200, 200));
    assert_eq!((cookie(&token), bearer(&value(&first)), bearer(&value(&second))), (401, 401, 401));
    // A browser that is signed in and brings a link gets another session; a used link none.
    let headers = format!("Host: 127.0.0.1:{port}\r\nCookie: {first}\r\n");
    let link = site.server.link().unwrap();
    let (_, code) = link.split_once("/?").unwrap();
    let answer = site.send(&format!("GET /?{code}"), &headers, "");
    assert!(answer.status == 303 && !answer.header("set-cookie").unwrap().contains(&first));
    let answer = site.send(&format!("GET /?{code}"), &headers, "");
    assert_eq!((answer.status, answer.header("set-cookie")), (303, None));
    // Many more sign in: who is still there is not forgotten, who has left is.
    for _ in 0..20 {
        site.sign_in();
        assert_eq!(cookie(&value(&first)), 200);
    }
    assert_eq!(cookie(&value(&second)), 401);
}
