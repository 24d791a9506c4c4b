package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// pagePatience is how long a page waits for the API.
const pagePatience = 20 * time.Second

// maxForm is the most bytes of a form. The largest one has the payload of a task.
const maxForm = 64 << 20

// policy is the Content-Security-Policy of all responses: nothing is loaded from elsewhere, and nothing runs that is written in a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Config configures a dashboard.
type Config struct {
	Base string       // path of the pages, such as /ui/: it begins and ends with a slash
	API  http.Handler // of the node; asked with the token of the person
	Node string       // its name
	Log  *slog.Logger // nil for none

	// Planner is for the page of the plan; nil if nothing is known about bounds.
	Planner Planner

	// Tokens returns the tokens that are valid now. Then a person needs one. Nil: every caller may do everything.
	Tokens func() *access.Tokens

	// Login has people log in at an identity provider, too. It needs Tokens. Nil: with tokens alone.
	Login *Login
}

// dashboard is the handler of all pages.
type dashboard struct {
	Config
	client taskenginev1connect.TaskServiceClient
	shapes map[string]*shape // of pages, by the names of their templates; never changed
	assets map[string]asset  // by path below Base; never changed
	sealer sealer            // of cookies; unused without Login
	cache  cache
	crowd  crowd

	predictions predictions
}

// New returns a handler of the paths that begin with c.Base.
func New(c Config) http.Handler { return newDashboard(c).handler() }

func newDashboard(c Config) *dashboard {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	d := &dashboard{Config: c, client: newClient(c.API), assets: readAssets()}
	d.shapes = d.parse()
	d.cache.init()
	if c.Login != nil {
		d.sealer = newSealer(c.Login)
	}
	return d
}

func (d *dashboard) handler() http.Handler {
	mux := http.NewServeMux()
	for path, a := range d.assets {
		mux.Handle("GET "+d.Base+path, a)
	}
	mux.HandleFunc("GET "+d.Base+"login", d.showLogin)
	mux.HandleFunc("POST "+d.Base+"login", d.logIn)
	mux.HandleFunc("POST "+d.Base+"logout", d.logOut)
	if d.Login != nil {
		mux.HandleFunc("GET "+d.Base+beginPath, d.beginLogin)
		mux.HandleFunc("GET "+d.Base+callbackPath, d.endLogin)
		mux.HandleFunc("POST "+d.Base+endPath, d.endSessions)
	}
	for _, p := range pages() {
		mux.HandleFunc("GET "+d.Base+p.path, func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, p) })
	}
	for _, a := range actions() {
		mux.HandleFunc("POST "+d.Base+a.path, func(w http.ResponseWriter, r *http.Request) { d.serveAction(w, r, a) })
	}
	mux.HandleFunc(d.Base, func(w http.ResponseWriter, r *http.Request) {
		d.fail(w, r, connect.NewError(connect.CodeNotFound, errors.New("there is no such page")))
	})
	return hardened(http.NewCrossOriginProtection().Handler(mux))
}

// hardened adds the headers that every response has.
func hardened(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		}
		h.ServeHTTP(w, r)
	})
}

// serve shows a page, to a person or to the script of one that is open.
func (d *dashboard) serve(w http.ResponseWriter, r *http.Request, p page) {
	v, ok := d.admit(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(v.ctx, pagePatience)
	defer cancel()
	v.ctx, v.every = ctx, p.every
	if p.every > 0 && v.isRefresh() {
		d.serveRefresh(w, v, p)
		return
	}
	d.servePage(w, v, p)
}

// servePage shows a page to one person.
func (d *dashboard) servePage(w http.ResponseWriter, v *view, p page) {
	data, ok := d.load(w, v, p)
	if !ok {
		return
	}
	if p.part {
		d.show(w, v, p.template, "content", http.StatusOK, data)
		return
	}
	d.show(w, v, p.template, "layout", http.StatusOK, d.layoutOf(v, p, data))
}

// load returns the values of a page. If there are none, it answers the request and returns false.
func (d *dashboard) load(w http.ResponseWriter, v *view, p page) (data any, ok bool) {
	data, err := p.load(v)
	if err != nil {
		d.failAs(w, v, err)
		return nil, false
	}
	if v.redirect != "" {
		http.Redirect(w, v.Request, v.redirect, http.StatusSeeOther)
		return nil, false
	}
	return data, true
}

// serveAction handles a form, and redirects to the page that shows the outcome.
func (d *dashboard) serveAction(w http.ResponseWriter, r *http.Request, a action) {
	v, ok := d.admit(w, r)
	if !ok {
		return
	}
	if err := r.ParseForm(); err != nil {
		d.failAs(w, v, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the form cannot be read: %w", err)))
		return
	}
	ctx, cancel := context.WithTimeout(v.ctx, pagePatience)
	defer cancel()
	v.ctx = ctx
	to, err := a.do(v)
	d.cache.forget()
	if err != nil {
		d.failAs(w, v, err)
		return
	}
	http.Redirect(w, r, d.Base+to, http.StatusSeeOther)
}

// show writes a template of a page: its layout, or its content.
func (d *dashboard) show(w http.ResponseWriter, v *view, template, part string, code int, values any) {
	if content, ok := d.draw(w, template, part, values); ok {
		d.send(w, v, code, content, tagOf(content))
	}
}

// send writes a page. A script that has the same page already gets no body.
func (d *dashboard) send(w http.ResponseWriter, v *view, code int, content []byte, tag string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("ETag", tag)
	if v.every > 0 {
		w.Header().Set(everyHeader, strconv.FormatInt(d.crowd.interval(v.now, v.every, v.Header.Get(live)).Milliseconds(), 10))
	}
	if code == http.StatusOK && v.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.WriteHeader(code)
	_, _ = w.Write(content) // a browser that has gone is seen elsewhere
}

// visible replaces a character that changes how the text around it is shown.
func visible(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f || unicode.Is(unicode.Bidi_Control, r) {
		return utf8.RuneError
	}
	return r
}

// fail shows an error to a person that need not be known.
func (d *dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	if v, ok := d.admit(w, r); ok {
		d.failAs(w, v, err)
	}
}

// failAs shows an error.
func (d *dashboard) failAs(w http.ResponseWriter, v *view, err error) {
	code := connect.CodeOf(err)
	if code == connect.CodeUnauthenticated {
		d.forget(w, v.Request)
		d.sendToLogin(w, v.Request)
		return
	}
	v.title = titleOf(code)
	d.show(w, v, "failure", "layout", statusOf(code), d.layoutOf(v, page{template: "failure"}, failure{Said: errorText(err), Back: d.backOf(v.Request)}))
}

// errorText returns an error of the API without its code.
func errorText(err error) string {
	if remote := new(connect.Error); errors.As(err, &remote) {
		return remote.Message()
	}
	return err.Error()
}

// failure is the content of the page about an error.
type failure struct {
	Said string
	Back string // the page from before; "" if it is not known
}

// backOf returns the page of this dashboard from which a request comes.
func (d *dashboard) backOf(r *http.Request) string {
	_, path, ok := strings.Cut(r.Referer(), "://"+r.Host)
	if !ok || !d.isOwn(path) {
		return ""
	}
	return path
}

func titleOf(code connect.Code) string {
	switch code {
	case connect.CodeNotFound:
		return "Not found"
	case connect.CodePermissionDenied:
		return "Not allowed"
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeAborted, connect.CodeAlreadyExists:
		return "Not done"
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return "No answer"
	}
	return "Failed"
}

func statusOf(code connect.Code) int {
	switch code {
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeFailedPrecondition, connect.CodeAborted, connect.CodeAlreadyExists:
		return http.StatusConflict
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
