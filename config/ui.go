package config

import (
	"errors"
	"path"
	"strings"
)

// UI is the dashboard, which the listeners of the API serve.
type UI struct {
	On   bool
	Path string // of its pages: it begins and ends with a slash
	Plan string // a file with the curves of the machine; "" for none
	OIDC *OIDC  // nil: people log in with tokens alone
}

// DefaultUI returns the dashboard of a file that sets nothing about it.
func DefaultUI() UI { return UI{On: true, Path: "/ui/"} }

var uiTable = &object{fields: []field{
	{name: "path", doc: "The path of its pages, which begins and ends with a slash. A proxy that forwards only a part of its paths passes them on unchanged.", otherwise: "`/ui/`", is: words("a path, such as /ui/", isBase), at: in(func(u *UI) *string { return &u.Path })},
	{name: "plan", doc: "A file with the curves of this machine, which `taskengine capacity calibrate` writes. The page Plan says with it how far the load can grow; the node reads it again each time. See [Plan](dashboard.md#plan).", otherwise: "none, the page shows slots and limits", is: words("a file", notEmpty), at: in(func(u *UI) *string { return &u.Plan })},
	{name: "oidc", doc: "Has people log in at an identity provider by OpenID Connect, beside tokens. It needs `api.tokens`. See [Log in at an identity provider](dashboard.md#log-in-at-an-identity-provider).", otherwise: "none, people log in with tokens", is: oidcTable, at: in(func(u *UI) *OIDC {
		u.OIDC = defaultOIDC()
		return u.OIDC
	})},
}}

func isBase(s string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/-_.", r)
	}
	switch {
	case len(s) < 3 || s[0] != '/' || s[len(s)-1] != '/':
		return errors.New("must begin and end with a slash, and have a name between them, such as /ui/")
	case strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) || path.Clean(s)+"/" != s:
		return errors.New("must be of letters, digits, dots, - and _, with single slashes between them")
	case strings.HasPrefix(s, "/taskengine.") || strings.HasPrefix(s, "/v1/"):
		return errors.New("is a path of the API; choose another one, such as /ui/")
	}
	return nil
}

// ui turns the dashboard on if the file has its section.
func (d *decoder) ui() {
	e := d.cfg.tree.find("ui")
	if e == nil || e.value.kind != mapping {
		return
	}
	d.cfg.UI.On = true
	if d.cfg.UI.Path == "" {
		d.cfg.UI.Path = DefaultUI().Path
	}
	d.oidc()
}
