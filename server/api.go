package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/server/peer"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/server/sessions"
	"github.com/taskengine/taskengine/server/tokens"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
	"github.com/taskengine/taskengine/timeslice/slicer"
	"github.com/taskengine/taskengine/workflow"
)

// Limits of one request. A client that needs more sends several.
const (
	MaxSubmit   = 1000  // tasks in one submit, or in one message of a stream
	MaxChildren = 10000 // children of one task that are submitted with it
	MaxList     = 1000  // tasks in one page
	MaxFilter   = 1000  // types or states in one filter
	MaxWait     = time.Minute

	defaultList = 100
	defaultWait = 30 * time.Second

	// minCompressed is the least size in bytes of a response to compress, for a client that accepts it. Compressing a
	// receipt takes more time than the rest of its request, and makes it no shorter.
	minCompressed = 4 << 10

	// maxStreamed is how many requests of a stream may be without an outcome before the node reads on.
	maxStreamed = 4000
)

// DefaultMaxRequest is the default of the size of a request in bytes, uncompressed.
const DefaultMaxRequest = 32 << 20

// APIConfig configures an [API].
type APIConfig struct {
	Engine     *engine.Engine
	Build      Build                           // that Version returns
	Node       string                          // name of the node
	Log        *slog.Logger                    // nil for none
	Metrics    *Metrics                        // counts the requests; nil for none
	MaxRequest int                             // bytes of a request, uncompressed; 0 is DefaultMaxRequest
	TaskLog    *tasklog.Log                    // lines that handlers log about tasks; nil if they are not kept
	StoredLogs *tasklog.Stored                 // the logs in the store; nil if it keeps none
	Alerts     Alerts                          // nil if the node has none
	Workers    Workers                         // nil if the node takes none
	Sources    Sources                         // nil if the node has none
	Slices     *slicer.Sources                 // likewise; sources of time slices
	Workflows  map[string]*workflow.Definition // that SubmitWorkflow knows by their names

	// Submitted returns the context for adding the tasks of a Submit, for instance one with the trace context of the
	// request. header returns the value of a header by its name in lower case, "" if there is none. May be nil.
	Submitted func(ctx context.Context, header func(name string) string) context.Context

	// Audit gets a line for each request that changes a task or a setting, before it is answered: the caller, the verb, the
	// named objects, and the outcome. Nil: none.
	Audit *slog.Logger

	// Redaction has what callers with a token see only with the role reveal. It is the same on all nodes.
	Redaction Redaction

	// Peers are the other nodes of the cluster, which requests ask for what this node does not know. Nil: it is alone.
	Peers *peer.Peers

	// Stop has the node stop after its running tasks. It returns at once. Nil: DrainNode cannot.
	Stop func(reason string)

	// Reload has the node read its configuration file again. ctx bounds the wait and not the reload. Nil: it has no file.
	Reload func(ctx context.Context, by ReloadedBy) (Reload, error)

	// Tokens returns the tokens that are valid now. Then callers need one, except callers on a Unix socket that send
	// none. Nil: every caller may do everything.
	Tokens func() *access.Tokens

	// Kept are the tokens of the cluster, for the methods that change them. Nil: it has none.
	Kept *tokens.Kept

	// Sessions are the sessions of the dashboard that were ended, for the method that ends more. Nil: people do not log in.
	Sessions *sessions.Ended

	// Register adds services for workers to the server of gRPC libraries, beside that of the API; nil for none. Their methods
	// are streams. A caller with a token needs the role work. permit checks that the token is for the given types of tasks,
	// and adds that the caller may also add tasks of these types, and signal them; for adds the type "" stands for any.
	Register func(r grpc.ServiceRegistrar, permit, adds func(ctx context.Context, types ...string) error)
}

// API serves proto/taskengine/v1 over gRPC, gRPC-Web and Connect. It is the handler of a listener, which also has
// [API.GRPC] serve the connections of gRPC libraries.
type API struct {
	http.Handler

	maxRequest int
	engine     *engine.Engine
	build      Build
	node       string
	log        *slog.Logger
	metrics    *Metrics                                                 // nil for none
	taskLog    *tasklog.Log                                             // nil for none
	storedLogs *tasklog.Stored                                          // nil for none
	alerts     Alerts                                                   // nil for none
	workers    Workers                                                  // nil for none
	peers      *peer.Peers                                              // nil for none
	stop       func(reason string)                                      // nil for none
	reload     func(ctx context.Context, by ReloadedBy) (Reload, error) // nil for none
	started    time.Time
	sources    Sources                         // nil for none
	slices     *slicer.Sources                 // nil for none
	workflows  map[string]*workflow.Definition // by name; never changed
	audit      *slog.Logger                    // nil for none
	tokens     func() *access.Tokens           // nil: every caller may do everything
	kept       *tokens.Kept                    // nil: the cluster keeps none
	sessions   *sessions.Ended                 // nil: there are none
	redaction  atomic.Pointer[Redaction]       // replaced by SetRedaction, and never changed
	submitted  func(ctx context.Context, header func(name string) string) context.Context
	register   func(grpc.ServiceRegistrar, func(ctx context.Context, types ...string) error, func(ctx context.Context, types ...string) error)

	schedules scheduler.Schedules
	jobs      jobs.Jobs
	stopping  chan struct{} // closed by Drain
	drain     sync.Once     // closes stopping
	intake    *intake       // bounds the messages that clients have begun to send
}

var _ taskenginev1connect.TaskServiceHandler = (*API)(nil)

// NewAPI returns the API of a node.
func NewAPI(c APIConfig) *API {
	api := &API{
		maxRequest: cmp.Or(c.MaxRequest, DefaultMaxRequest),
		engine:     c.Engine, build: c.Build, node: c.Node, log: c.Log, metrics: c.Metrics, taskLog: c.TaskLog, storedLogs: c.StoredLogs, alerts: c.Alerts, workers: c.Workers, peers: c.Peers, stop: c.Stop, reload: c.Reload, started: time.Now(), sources: c.Sources, slices: c.Slices, workflows: c.Workflows, tokens: c.Tokens, kept: c.Kept, sessions: c.Sessions, audit: c.Audit,
		submitted: c.Submitted, register: c.Register,
		schedules: scheduler.Of(c.Engine), jobs: jobs.Of(c.Engine), stopping: make(chan struct{}),
	}
	api.SetRedaction(c.Redaction)
	if api.log == nil {
		api.log = slog.New(slog.DiscardHandler)
	}
	var interceptors []connect.Interceptor
	if c.Metrics != nil {
		interceptors = append(interceptors, stopwatch{c.Metrics})
	}
	interceptors = append(interceptors, auditor{api}, veiler{api})
	mux := http.NewServeMux()
	mux.Handle(taskenginev1connect.NewTaskServiceHandler(api,
		connect.WithReadMaxBytes(api.maxRequest),
		connect.WithCompressMinBytes(minCompressed),
		connect.WithInterceptors(interceptors...),
		connect.WithRecover(api.recovered),
		connect.WithCodec(strictJSON{"json"}),
		connect.WithCodec(strictJSON{"json; charset=utf-8"}),
	))
	mux.HandleFunc("GET "+EventsPath, api.serveEvents)
	api.intake = newIntake(api.maxRequest, api.log)
	api.Handler = api.greeting(api.admitted(unhurried(api.metered(mux))))
	return api
}

// Mount has requests for the paths that begin with base, which ends with a slash, answered by pages, which admit their callers themselves. Browsers
// that ask for the root are led to base. It is called before the API is served.
func (a *API) Mount(base string, pages http.Handler) {
	next := a.Handler
	a.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, base):
			pages.ServeHTTP(w, r)
		case r.Method == http.MethodGet && (r.URL.Path == "/" || r.URL.Path+"/" == base):
			http.Redirect(w, r, base, http.StatusFound)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// SetRedaction replaces the redaction, for requests that come later.
func (a *API) SetRedaction(r Redaction) { a.redaction.Store(&r) }

// unhurried takes the time limits of a listener from requests that last as long as the client wants.
func unhurried(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == EventsPath || r.URL.Path == taskenginev1connect.TaskServiceSubmitStreamProcedure && r.ProtoMajor == 2 {
			control := http.NewResponseController(w)
			_, _ = control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})
		}
		h.ServeHTTP(w, r)
	})
}

// Drain notifies clients that the node stops. From then on streams refuse tasks.
func (a *API) Drain() { a.drain.Do(func() { close(a.stopping) }) }

// recovered returns the error of a request after its method panicked.
func (a *API) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	return a.panicked(spec.Procedure, cause)
}

// panicked returns the error of a request after its method panicked.
func (a *API) panicked(method string, cause any) error {
	a.log.Error("a request made the API panic; please report it", "method", method,
		"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return connect.NewError(connect.CodeInternal, errors.New("the server panicked; its log has the reason"))
}

// parseID parses an id, which is required.
func parseID(text string) (task.ID, error) {
	if text == "" {
		return task.ID{}, invalid("id is missing")
	}
	id, err := task.ParseID(text)
	if err != nil {
		return task.ID{}, invalid("id: %w", err)
	}
	if id.IsZero() {
		return task.ID{}, invalid("id: the zero UUID identifies nothing")
	}
	return id, nil
}
