package dashboard

import (
	"cmp"
	"context"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

//go:embed templates/*.html
var templates embed.FS

// shape is a page as a template, together with the layout.
type shape = template.Template

// page is one page.
type page struct {
	path     string        // below the base, in the syntax of [http.ServeMux]
	name     string        // of its link in the navigation; "" for none
	key      string        // the letter that leads to it after g, if it has a name
	under    string        // the name of the page in the navigation to which it belongs; "" for its own
	whole    bool          // it is for tokens of all types alone
	part     bool          // it is a part of another page, for its script
	template string        // the name of its file, without .html
	every    time.Duration // how often the script refreshes it; 0 is never

	// load returns the values of its template. It may set the title and the like of the view.
	load func(v *view) (any, error)
}

// action handles a form.
type action struct {
	path string
	do   func(v *view) (to string, err error) // to is the path of the page to show then, below the base
}

// view is one request by one person.
type view struct {
	*http.Request
	d      *dashboard
	ctx    context.Context // of requests to the API: it has the token
	token  *access.Token   // or the person with a session; nil: the person may do everything
	secret string          // the text of the token, or of the session
	now    time.Time
	until  time.Time // until when what a refresh shows may be shown to others

	every    time.Duration // of the page
	title    string
	command  string                     // the command line that shows or does the same
	silent   []*taskenginev1.SilentNode // nodes that did not answer
	redirect string                     // where to go instead; "" for nowhere
	done     string                     // the outcome of an action, in words
}

// api returns a client of the API.
func (v *view) api() taskenginev1connect.TaskServiceClient { return v.d.client }

// may reports whether the person has a role. It decides about what is shown: the API refuses the rest by itself.
func (v *view) may(role access.Role) bool { return v.token == nil || v.token.May(role) }

// layout has the values of the frame of a page.
type layout struct {
	Title, Base, Node string
	Links             []link
	Who               string // the name of the token; "" if there is none
	Roles             string
	Command           string
	Every             int64 // milliseconds until the next refresh; 0 is never
	Silent            []*taskenginev1.SilentNode
	Done              string
	Data              any
}

// link is a link in the navigation.
type link struct {
	Name, To, Key string
	Here          bool
}

// layoutOf returns the frame of a page.
func (d *dashboard) layoutOf(v *view, p page, data any) *layout {
	l := &layout{
		Title: cmp.Or(v.title, p.name), Base: d.Base, Node: d.Node, Command: v.command, Every: p.every.Milliseconds(),
		Silent: v.silent, Done: v.done, Data: data,
	}
	if v.token != nil {
		l.Who = cmp.Or(v.token.PersonName(), v.token.Name)
		var roles []string
		for _, r := range v.token.Roles {
			roles = append(roles, string(r))
		}
		l.Roles = strings.Join(roles, ", ")
	}
	if d.Tokens != nil && v.token == nil { // nobody has logged in
		return l
	}
	for _, other := range pages() {
		if other.name != "" && (!other.whole || v.token == nil || v.token.IsForAll()) {
			l.Links = append(l.Links, link{other.name, d.Base + strings.TrimSuffix(other.path, "{$}"), other.key, other.name == cmp.Or(p.under, p.name)})
		}
	}
	return l
}

// parse parses the templates.
func (d *dashboard) parse() map[string]*shape {
	all := make(map[string]*shape)
	names := []string{"login", "failure", "arrival"}
	for _, p := range pages() {
		names = append(names, p.template)
	}
	for _, name := range names {
		all[name] = template.Must(template.New(name).Funcs(functions(d.Base)).ParseFS(templates, "templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
	}
	return all
}
