package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server/peer"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// caller identifies the caller of a request with a token, or a person. A request that needs no token has no caller in its
// context, and may do everything.
type caller struct {
	name   string        // of its token, or of the person
	hash   access.Hash   // of its token
	person *access.Token // who has logged in to the dashboard; nil: the token says who it is
	method string        // of the API, or the name of another operation
	right  right
}

// callerKey is the key of a caller in the context of its request.
type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// admit returns the context of a request, or why it is refused. Callers on a socket need no token.
func (a *API) admit(ctx context.Context, path, authorization string, from origin) (context.Context, error) {
	method, isOwn := strings.CutPrefix(path, procedures)
	if isOwn && isManagement(method) {
		ctx = context.WithValue(ctx, originKey{}, from)
	}
	person := access.PersonOf(ctx)
	if a.tokens == nil || person == nil && from.isSocket && authorization == "" {
		return ctx, nil
	}
	c := &caller{person: person, method: "a worker", right: right{access.Work, ofTypes}}
	if person == nil {
		text := access.Bearer(authorization)
		if text == "" {
			return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("the node wants a token: send Authorization: Bearer TOKEN; taskengine token create makes one"))
		}
		c.hash = access.HashOf(text)
	}
	if isOwn {
		c.method, c.right = method, rights[method]
		if _, known := rights[method]; !known {
			return nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("there is no method %.80q", method))
		}
	}
	return a.admitCaller(ctx, c, method)
}

// admitCaller returns the context of a request of a caller with a token, or why it is refused.
func (a *API) admitCaller(ctx context.Context, c *caller, method string) (context.Context, error) {
	if c.person != nil {
		c.name = c.person.Name
	} else if t := a.tokens().Find(c.hash); t != nil {
		c.name = t.Name
	}
	ctx = context.WithValue(ctx, callerKey{}, c)
	if _, err := a.tokenOf(c); err != nil {
		if connect.CodeOf(err) == connect.CodePermissionDenied {
			a.note(ctx, method, nil, err)
		}
		return nil, err
	}
	return ctx, nil
}

// valid returns the token of a caller, or the person. The error says why it is not valid any more.
func (a *API) valid(c *caller) (*access.Token, error) {
	switch {
	case c.person == nil:
		return a.tokens().Check(c.hash)
	case c.person.IsOver(time.Now()):
		return nil, fmt.Errorf("the session of %s has ended; log in again", c.person.PersonName())
	}
	return c.person, nil
}

// tokenOf returns the token of a caller, or an error if it does not allow the method, such as one that was revoked since.
func (a *API) tokenOf(c *caller) (*access.Token, error) {
	t, err := a.valid(c)
	switch {
	case errors.Is(err, access.ErrDoubt):
		return nil, connect.NewError(connect.CodeUnavailable, err)
	case err != nil:
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	case c.right.role != "" && !t.May(c.right.role):
		return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s needs the role %s, which %s does not have", c.method, c.right.role, t.Label()))
	case c.right.of == ofAll && !t.IsForAll():
		return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s needs a token for all types, and %s is for %s", c.method, t.Label(), strings.Join(t.Types, ", ")))
	}
	return t, nil
}

// permitRole returns an error unless the caller has a role that is more than that of its method. what is in the error.
func (a *API) permitRole(ctx context.Context, role access.Role, what string) error {
	c := callerOf(ctx)
	if c == nil {
		return nil
	}
	t, err := a.tokenOf(c)
	if err != nil {
		return err
	}
	if !t.May(role) {
		return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s needs the role %s, which %s does not have", what, role, t.Label()))
	}
	return nil
}

// recheck returns an error if the token of a request was revoked since it began.
func (a *API) recheck(ctx context.Context) error {
	if c := callerOf(ctx); c != nil {
		_, err := a.tokenOf(c)
		return err
	}
	return nil
}

// permit returns an error unless the caller may deal with tasks of these types.
func (a *API) permit(ctx context.Context, types ...string) error {
	c := callerOf(ctx)
	if c == nil {
		return nil
	}
	t, err := a.tokenOf(c)
	if err != nil {
		return err
	}
	for _, typ := range types {
		if !t.IsFor(typ) {
			return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s is for tasks of the types %s, and not for %.80q", t.Label(), strings.Join(t.Types, ", "), typ))
		}
		if c.right.isChange() && task.IsReservedType(typ) && !(t.May(access.Admin) && t.IsForAll()) {
			return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s of the type %.80q, which belongs to the engine, needs the role %s for all types, which %s does not have", c.method, typ, access.Admin, t.Label()))
		}
	}
	return nil
}

// permitAdded returns an error unless the caller, which is a worker, may also add tasks of these types, and signal them. The type "" stands for any.
func (a *API) permitAdded(ctx context.Context, types ...string) error {
	c := callerOf(ctx)
	if c == nil {
		return nil
	}
	t, err := a.tokenOf(c)
	if err != nil {
		return err
	}
	if !t.May(access.Submit) {
		return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("a worker that adds tasks or sends signals needs the role %s, too, which %s does not have", access.Submit, t.Label()))
	}
	if slices.Contains(types, workflow.Type) && !t.IsForAll() { // which adds tasks of other types
		return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("a worker that adds workflows needs a token for all types, and %s is for %s", t.Label(), strings.Join(t.Types, ", ")))
	}
	return a.permit(ctx, types...)
}

// permitRequest is permit for a request. A workflow is for the types of its steps, too, and a task that runs after others for theirs.
func (a *API) permitRequest(ctx context.Context, r *task.Request) error {
	if len(r.After) > 0 {
		if err := a.permitTasks(ctx, r.After...); err != nil {
			return err
		}
	}
	if err := a.permit(ctx, r.Type); err != nil || r.Type != workflow.Type {
		return err
	}
	spec, err := workflow.ParseSpec(r.Payload)
	if err != nil {
		return invalid("%w", err)
	}
	types := spec.Definition.Types()
	if c := callerOf(ctx); c != nil && slices.Contains(types, workflow.Type) { // the definition of that may be made of results
		if t, err := a.tokenOf(c); err != nil {
			return err
		} else if !t.IsForAll() {
			return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("a workflow with a step that is a workflow needs a token for all types, and %s is for %s", t.Label(), strings.Join(t.Types, ", ")))
		}
	}
	return a.permit(ctx, types...)
}

// permitFilter is permit for a filter; a filter without types selects all types.
func (a *API) permitFilter(ctx context.Context, types []string) error {
	if c := callerOf(ctx); c != nil && len(types) == 0 {
		if t, err := a.tokenOf(c); err != nil {
			return err
		} else if !t.IsForAll() {
			return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s is for tasks of the types %s; name types in the request", t.Label(), strings.Join(t.Types, ", ")))
		}
	}
	return a.permit(ctx, types...)
}

// permitTasks is permit for tasks by their ids. Tasks that there are not are permitted.
func (a *API) permitTasks(ctx context.Context, ids ...task.ID) error {
	c := callerOf(ctx)
	if c == nil {
		return nil
	}
	if t, err := a.tokenOf(c); err != nil || t.IsForAll() && (t.May(access.Admin) || !c.right.isChange()) {
		return err
	}
	for _, id := range ids {
		t, err := a.engine.Get(ctx, id)
		switch {
		case errors.Is(err, task.ErrNotFound):
		case err != nil && !errors.Is(err, engine.ErrUnreadable):
			return err
		default:
			if err := a.permit(ctx, t.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// admitted refuses requests before their body is read.
func (a *API) admitted(h http.Handler) http.Handler {
	answers := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		path := r.URL.Path
		if path == EventsPath {
			path = procedures + "Events"
		}
		from := origin{r.RemoteAddr, isSocket(local)}
		var ctx context.Context
		var err error
		if signed := r.Header.Get(peer.Header); signed != "" {
			ctx, err = a.admitPeer(r.Context(), r.URL.Path, signed, from)
		} else {
			ctx, err = a.admit(r.Context(), path, r.Header.Get("Authorization"), from)
		}
		if err == nil {
			h.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		if _, known := rights[strings.TrimPrefix(r.URL.Path, procedures)]; known && a.metrics != nil {
			stopwatch{a.metrics}.record(begin, r.URL.Path, err)
		}
		if !answers.IsSupported(r) {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_ = answers.Write(w, r, err) // if it fails, the client has gone
	})
}

// admitGRPC is admit for a request to grpc-go.
func (a *API) admitGRPC(ctx context.Context, path string) (context.Context, error) {
	authorization := ""
	if sent := metadata.ValueFromIncomingContext(ctx, "authorization"); len(sent) > 0 {
		authorization = sent[0]
	}
	from := origin{}
	if p, ok := grpcpeer.FromContext(ctx); ok {
		from = origin{p.Addr.String(), isSocket(p.LocalAddr)}
	}
	return a.admit(ctx, path, authorization, from)
}

// admitStream is an interceptor of grpc-go for the streams of all services.
func (a *API) admitStream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := a.admitGRPC(s.Context(), info.FullMethod)
	name, isOwn := strings.CutPrefix(info.FullMethod, procedures)
	switch {
	case err != nil && isOwn:
		return statusOf(a.call(name, func() error { return err }), s.SetTrailer) // which counts it
	case err != nil:
		return statusOf(err, s.SetTrailer)
	case isOwn:
		return next(srv, &admittedStream{s, ctx})
	}
	return next(srv, &recheckedStream{admittedStream{s, ctx}, a})
}

// recheckedStream is a stream of a worker. It ends when the token of the worker is revoked.
type recheckedStream struct {
	admittedStream
	api *API
}

// RecvMsg implements [grpc.ServerStream].
func (s *recheckedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		err = statusOf(s.api.recheck(s.ctx), s.SetTrailer)
	}
	return err
}

// admittedStream is a stream with the context of its caller.
type admittedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (s *admittedStream) Context() context.Context { return s.ctx }

// isSocket reports whether an address is that of a Unix socket, which callers reach by permission of the file system.
func isSocket(a net.Addr) bool { return a != nil && a.Network() == "unix" }

// rechecked returns a function that sends as send does, without what the caller may not see, until the token of the request is revoked.
func rechecked[Res any](a *API, ctx context.Context, send func(*Res) error) func(*Res) error {
	return func(res *Res) error {
		if err := a.recheck(ctx); err != nil {
			return err
		}
		a.veiled(ctx, res)
		return send(res)
	}
}
