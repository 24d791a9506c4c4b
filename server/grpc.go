package server

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"

	_ "google.golang.org/grpc/encoding/gzip" // of requests that are compressed
)

// GRPC returns a server of the API for the connections of gRPC libraries. It answers as the handler does, with less CPU
// time (docs/adr/0062).
func (a *API) GRPC() *grpc.Server {
	s := grpc.NewServer(
		grpc.MaxRecvMsgSize(a.maxRequest),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ReadBufferSize(16<<10),
		grpc.ConnectionTimeout(readHeaderTimeout),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: idleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: taskenginev1connect.TaskServiceName, HandlerType: (*any)(nil),
		Methods: a.unaryMethods(), Streams: a.streamMethods(),
	}, nil)
	return s
}

// unaryMethods returns the methods that have one request and one response.
func (a *API) unaryMethods() []grpc.MethodDesc {
	return []grpc.MethodDesc{
		unary(a, "Submit", a.Submit),
		unary(a, "Get", a.Get),
		unary(a, "List", a.List),
		unary(a, "Count", a.Count),
		unary(a, "Wait", a.Wait),
		unary(a, "Why", a.Why),
		unary(a, "Cancel", a.Cancel),
		unary(a, "Resume", a.Resume),
		unary(a, "Fail", a.Fail),
		unary(a, "Reschedule", a.Reschedule),
		unary(a, "ListKeys", a.ListKeys),
		unary(a, "GetKey", a.GetKey),
		unary(a, "ResumeKey", a.ResumeKey),
		unary(a, "SkipKey", a.SkipKey),
		unary(a, "ListTypes", a.ListTypes),
		unary(a, "PauseType", a.PauseType),
		unary(a, "ResumeType", a.ResumeType),
		unary(a, "ListLimits", a.ListLimits),
		unary(a, "GetLimit", a.GetLimit),
		unary(a, "SetLimit", a.SetLimit),
		unary(a, "UnsetLimit", a.UnsetLimit),
		unary(a, "WhyLimit", a.WhyLimit),
		unary(a, "ListAlerts", a.ListAlerts),
		unary(a, "TestAlerts", a.TestAlerts),
		unary(a, "SilenceAlerts", a.SilenceAlerts),
		unary(a, "UnsilenceAlerts", a.UnsilenceAlerts),
		unary(a, "ListSchedules", a.ListSchedules),
		unary(a, "GetSchedule", a.GetSchedule),
		unary(a, "ApplySchedule", a.ApplySchedule),
		unary(a, "PreviewSchedule", a.PreviewSchedule),
		unary(a, "DeleteSchedule", a.DeleteSchedule),
		unary(a, "PauseSchedule", a.PauseSchedule),
		unary(a, "ResumeSchedule", a.ResumeSchedule),
		unary(a, "TriggerSchedule", a.TriggerSchedule),
		unary(a, "BackfillSchedule", a.BackfillSchedule),
		unary(a, "Version", a.Version),
	}
}

// streamMethods returns the methods that have several responses.
func (a *API) streamMethods() []grpc.StreamDesc {
	return []grpc.StreamDesc{
		serverStream(a, "TaskLogs", a.taskLogs),
		serverStream(a, "WatchLimits", a.watchLimits),
	}
}

// unary returns a method of grpc-go.
func unary[Req, Res any](a *API, name string, method func(context.Context, *Req) (*Res, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := new(Req)
		var res *Res
		err := a.call(name, func() (err error) {
			if err := decode(req); err != nil {
				return unreadable(err)
			}
			res, err = method(ctx, req)
			return err
		})
		if err != nil {
			return nil, statusOf(err, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
		}
		return res, nil
	}}
}

// serverStream returns a method of grpc-go that has several responses.
func serverStream[Req, Res any](a *API, name string, method func(context.Context, *Req, func(*Res) error) error) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		err := a.call(name, func() error {
			req := new(Req)
			if err := s.RecvMsg(req); err != nil {
				return unreadable(err)
			}
			return method(s.Context(), req, func(res *Res) error { return s.SendMsg(res) })
		})
		return statusOf(err, s.SetTrailer)
	}}
}

// call calls a method and measures it.
func (a *API) call(name string, method func() error) (err error) {
	if a.metrics != nil {
		begin := time.Now()
		defer func() { stopwatch{a.metrics}.record(begin, name, err) }()
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = a.panicked(name, cause)
		}
	}()
	return method()
}

// unreadable returns the error of a request that cannot be read.
func unreadable(err error) error {
	code := connect.Code(status.Code(err))
	if code == connect.CodeInternal { // it is not a message of the type
		code = connect.CodeInvalidArgument
	}
	return connect.NewError(code, errors.New(status.Convert(err).Message()))
}

// statusOf returns the error of a method as one of grpc-go, and sets its metadata.
func statusOf(err error, setTrailer func(metadata.MD)) error {
	var answer *connect.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &answer):
		return status.FromContextError(err).Err()
	}
	if meta := answer.Meta(); len(meta) > 0 {
		md := make(metadata.MD, len(meta))
		for k, v := range meta {
			md.Append(k, v...)
		}
		setTrailer(md)
	}
	return status.Error(grpccodes.Code(answer.Code()), answer.Message())
}
