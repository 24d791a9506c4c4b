package server

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"

	_ "google.golang.org/grpc/encoding/gzip" // of requests that are compressed
)

// GRPC returns a server of the API for the connections of gRPC libraries. It answers as the handler does, with less CPU
// time (docs/adr/0062, docs/adr/0117).
func (a *API) GRPC() *grpc.Server {
	s := grpc.NewServer(
		grpc.Creds(meteredCredentials{insecure.NewCredentials(), a.intake}),
		grpc.MaxRecvMsgSize(a.maxRequest),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ReadBufferSize(16<<10),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.ConnectionTimeout(readHeaderTimeout),
		grpc.WaitForHandlers(true),
		grpc.StreamInterceptor(a.admitStream),
		grpc.ForceServerCodecV2(tolerantCodec{encoding.GetCodecV2(grpcproto.Name)}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout, Time: idleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: taskenginev1connect.TaskServiceName, HandlerType: (*any)(nil),
		Methods: a.unaryMethods(), Streams: a.streamMethods(),
	}, nil)
	if a.register != nil {
		a.register(s, func(ctx context.Context, types ...string) error {
			return statusOf(a.permit(ctx, types...), func(metadata.MD) {}) // it has no metadata
		}, func(ctx context.Context, types ...string) error {
			return statusOf(a.permitAdded(ctx, types...), func(metadata.MD) {})
		})
	}
	return s
}

// unaryMethods returns the methods that have one request and one response.
func (a *API) unaryMethods() []grpc.MethodDesc {
	return []grpc.MethodDesc{
		unary(a, "Submit", a.Submit),
		unary(a, "SubmitWithChildren", a.SubmitWithChildren),
		unary(a, "AddChildren", a.AddChildren),
		unary(a, "Get", a.Get),
		unary(a, "List", a.List),
		unary(a, "Count", a.Count),
		unary(a, "ListErrors", a.ListErrors),
		unary(a, "Wait", a.Wait),
		unary(a, "Why", a.Why),
		unary(a, "Tree", a.Tree),
		unary(a, "SubmitWorkflow", a.SubmitWorkflow),
		unary(a, "GetWorkflow", a.GetWorkflow),
		unary(a, "RetryWorkflow", a.RetryWorkflow),
		unary(a, "Cancel", a.Cancel),
		unary(a, "Resume", a.Resume),
		unary(a, "Fail", a.Fail),
		unary(a, "Reschedule", a.Reschedule),
		unary(a, "Signal", a.Signal),
		unary(a, "GetDocument", a.GetDocument),
		unary(a, "ListDocuments", a.ListDocuments),
		unary(a, "SetDocument", a.SetDocument),
		unary(a, "DeleteDocument", a.DeleteDocument),
		unary(a, "ListKeys", a.ListKeys),
		unary(a, "GetKey", a.GetKey),
		unary(a, "ResumeKey", a.ResumeKey),
		unary(a, "SkipKey", a.SkipKey),
		unary(a, "ListTypes", a.ListTypes),
		unary(a, "PauseType", a.PauseType),
		unary(a, "ResumeType", a.ResumeType),
		unary(a, "ListNodes", a.ListNodes),
		unary(a, "DrainNode", a.DrainNode),
		unary(a, "ApplyConfig", a.ApplyConfig),
		unary(a, "ListWorkers", a.ListWorkers),
		unary(a, "DrainWorker", a.DrainWorker),
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
		unary(a, "ApplySchedules", a.ApplySchedules),
		unary(a, "PreviewSchedule", a.PreviewSchedule),
		unary(a, "DeleteSchedule", a.DeleteSchedule),
		unary(a, "PauseSchedule", a.PauseSchedule),
		unary(a, "ResumeSchedule", a.ResumeSchedule),
		unary(a, "PauseSchedules", a.PauseSchedules),
		unary(a, "ResumeSchedules", a.ResumeSchedules),
		unary(a, "DeleteSchedules", a.DeleteSchedules),
		unary(a, "TriggerSchedule", a.TriggerSchedule),
		unary(a, "BackfillSchedule", a.BackfillSchedule),
		unary(a, "ListSources", a.ListSources),
		unary(a, "GetSource", a.GetSource),
		unary(a, "PauseSource", a.PauseSource),
		unary(a, "ResumeSource", a.ResumeSource),
		unary(a, "SeekSource", a.SeekSource),
		unary(a, "ListSliceSources", a.ListSliceSources),
		unary(a, "GetSliceSource", a.GetSliceSource),
		unary(a, "ListPlatforms", a.ListPlatforms),
		unary(a, "GetPlatform", a.GetPlatform),
		unary(a, "SetSlices", a.SetSlices),
		unary(a, "AddPlatform", a.AddPlatform),
		unary(a, "ApplyPlatforms", a.ApplyPlatforms),
		unary(a, "RemovePlatform", a.RemovePlatform),
		unary(a, "PauseSlices", a.PauseSlices),
		unary(a, "ResumeSlices", a.ResumeSlices),
		unary(a, "ResetPlatform", a.ResetPlatform),
		unary(a, "RetrySlices", a.RetrySlices),
		unary(a, "SetTask", a.SetTask),
		unary(a, "DeleteTask", a.DeleteTask),
		unary(a, "PreviewBulkJob", a.PreviewBulkJob),
		unary(a, "StartBulkJob", a.StartBulkJob),
		unary(a, "ListBulkJobs", a.ListBulkJobs),
		unary(a, "GetBulkJob", a.GetBulkJob),
		unary(a, "PauseBulkJob", a.PauseBulkJob),
		unary(a, "ContinueBulkJob", a.ContinueBulkJob),
		unary(a, "SetBulkJobRate", a.SetBulkJobRate),
		unary(a, "StopBulkJob", a.StopBulkJob),
		unary(a, "AddToken", a.AddToken),
		unary(a, "ListTokens", a.ListTokens),
		unary(a, "RevokeToken", a.RevokeToken), unary(a, "RevokeSessions", a.RevokeSessions),
		unary(a, "RotateToken", a.RotateToken),
		unary(a, "Overview", a.Overview),
		unary(a, "Version", a.Version),
	}
}

// streamMethods returns the methods that have several responses.
func (a *API) streamMethods() []grpc.StreamDesc {
	return []grpc.StreamDesc{
		serverStream(a, "TaskLogs", a.taskLogs),
		serverStream(a, "WatchLimits", a.watchLimits),
		serverStream(a, "Events", a.events),
		{StreamName: "SubmitStream", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			err := a.call("SubmitStream", func() error {
				return a.submitStream(s.Context(), receiver(s), func(res *taskenginev1.SubmitStreamResponse) error { return s.SendMsg(res) })
			})
			return statusOf(err, s.SetTrailer)
		}},
	}
}

// receiver returns a function that receives the requests of a stream.
func receiver(s grpc.ServerStream) func() (*taskenginev1.SubmitStreamRequest, error) {
	return func() (*taskenginev1.SubmitStreamRequest, error) {
		req := new(taskenginev1.SubmitStreamRequest)
		return req, read(s.RecvMsg, req)
	}
}

// unary returns a method of grpc-go.
func unary[Req, Res any](a *API, name string, method func(context.Context, *Req) (*Res, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req, begun := new(Req), ctx
		var res *Res
		err := a.call(name, func() (err error) {
			if ctx, err = a.admitGRPC(ctx, procedures+name); err != nil {
				return err
			}
			if err := read(decode, req); err != nil {
				return err
			}
			res, err = method(ctx, req)
			a.note(ctx, name, req, err)
			if err == nil {
				a.veiled(ctx, res)
			}
			return err
		})
		if err != nil {
			return nil, statusOf(err, func(md metadata.MD) { _ = grpc.SetTrailer(begun, md) })
		}
		return res, nil
	}}
}

// serverStream returns a method of grpc-go that has several responses.
func serverStream[Req, Res any](a *API, name string, method func(context.Context, *Req, func(*Res) error) error) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		err := a.call(name, func() error {
			req := new(Req)
			if err := read(s.RecvMsg, req); err != nil {
				return err
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

// read reads a request. grpc-go would end a stream, with another code, before this server could.
func read(next func(any) error, req any) error {
	r := readable{message: req}
	switch err := next(&r); {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return connect.NewError(connect.Code(status.Code(err)), errors.New(status.Convert(err).Message()))
	case r.err != nil:
		return connect.NewError(connect.CodeInvalidArgument, r.err)
	}
	return nil
}

// readable is a message with the error of reading it.
type readable struct {
	message any
	err     error
}

// tolerantCodec is the codec of protobuf. It reports in a readable that bytes are no message.
type tolerantCodec struct{ encoding.CodecV2 }

// Unmarshal implements [encoding.CodecV2].
func (c tolerantCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*readable)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.err = c.CodecV2.Unmarshal(data, r.message)
	return nil
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
