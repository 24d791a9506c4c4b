package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/tasklog"
)

// What one request may ask for at most. A client that needs more asks again.
const (
	MaxSubmit = 1000 // tasks in one submit
	MaxList   = 1000 // tasks in one page
	MaxFilter = 1000 // types or states in one filter
	MaxWait   = time.Minute

	defaultList = 100
	defaultWait = 30 * time.Second
)

// DefaultMaxRequest is how many bytes a request may have, unpacked.
const DefaultMaxRequest = 32 << 20

// APIConfig is what an [API] works with.
type APIConfig struct {
	Engine     *engine.Engine
	Build      Build        // what Version answers
	Node       string       // the node's name
	Log        *slog.Logger // nil for none
	Metrics    *Metrics     // counts the requests; nil for no counting
	MaxRequest int          // bytes of a request, unpacked; 0 is DefaultMaxRequest
	TaskLog    *tasklog.Log // what handlers log about tasks; nil if that is not kept
}

// API serves proto/taskengine/v1 over gRPC, gRPC-Web and Connect.
type API struct {
	engine  *engine.Engine
	build   Build
	node    string
	log     *slog.Logger
	metrics *Metrics     // nil for no counting
	taskLog *tasklog.Log // nil for none
	now     func() time.Time
}

var _ taskenginev1connect.TaskServiceHandler = (*API)(nil)

// NewAPI returns the handler of the API's listener.
func NewAPI(c APIConfig) http.Handler {
	api := &API{engine: c.Engine, build: c.Build, node: c.Node, log: c.Log, metrics: c.Metrics, taskLog: c.TaskLog, now: time.Now}
	if api.log == nil {
		api.log = slog.New(slog.DiscardHandler)
	}
	var interceptors []connect.Interceptor
	if c.Metrics != nil {
		interceptors = append(interceptors, stopwatch{c.Metrics})
	}
	mux := http.NewServeMux()
	mux.Handle(taskenginev1connect.NewTaskServiceHandler(api,
		connect.WithReadMaxBytes(cmp.Or(c.MaxRequest, DefaultMaxRequest)),
		connect.WithInterceptors(interceptors...),
		connect.WithRecover(api.recovered),
		connect.WithCodec(strictJSON{"json"}),
		connect.WithCodec(strictJSON{"json; charset=utf-8"}),
	))
	return mux
}

// recovered answers a request whose method panicked.
func (a *API) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	a.log.Error("a request made the API panic; please report it", "method", spec.Procedure,
		"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return connect.NewError(connect.CodeInternal, errors.New("the server made a mistake; its log says more"))
}

// parseID reads an id that must be given.
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
