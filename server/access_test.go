package server_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// guarded is the API of a node that demands tokens. The text of each token is its name.
type guarded struct {
	*node
	tokens atomic.Pointer[access.Tokens]
	api    *server.API
	tcp    *server.Listener
}

func newGuarded(t testing.TB, tokens ...access.Token) *guarded {
	t.Helper()
	g := &guarded{node: newNode(t)}
	g.set(t, tokens...)
	g.api = server.NewAPI(server.APIConfig{Engine: g.engine, Node: "n1", Metrics: g.metrics, TaskLog: g.log, Tokens: g.tokens.Load})
	g.tcp = listenBoth(t, g.api)
	t.Cleanup(g.api.Drain)
	return g
}

func (g *guarded) set(t testing.TB, tokens ...access.Token) {
	t.Helper()
	for i := range tokens {
		tokens[i].Hash = access.HashOf(tokens[i].Name)
	}
	all, err := access.NewTokens(tokens)
	if err != nil {
		t.Fatal(err)
	}
	g.tokens.Store(all)
}

func of(name string, role access.Role, types ...string) access.Token {
	return access.Token{Name: name, Roles: []access.Role{role}, Types: types}
}

// withToken returns the context of a request to grpc-go with a token; "" is none.
func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// library returns a connection of grpc-go to an address.
func (g *guarded) library(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// request makes a request of any method, and returns the error with which it ends or, if it has a response, nil.
func request(ctx context.Context, c *grpc.ClientConn, m protoreflect.MethodDescriptor, fill func(proto.Message)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/taskengine.v1.TaskService/"+string(m.Name()))
	if err != nil {
		return err
	}
	req := dynamicpb.NewMessage(m.Input())
	fill(req)
	if err := s.SendMsg(req); err != nil && err != io.EOF {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if err := s.RecvMsg(dynamicpb.NewMessage(m.Output())); err != io.EOF {
		return err
	}
	return nil
}

func descriptors() (all []protoreflect.MethodDescriptor) {
	of := taskenginev1.File_taskengine_v1_taskengine_proto.Services().ByName("TaskService").Methods()
	for i := range of.Len() {
		all = append(all, of.Get(i))
	}
	return all
}

// least has the smallest role for each method. A method that is missing here fails the test of roles.
var least = map[string]access.Role{
	"Submit": access.Submit, "SubmitWithChildren": access.Submit, "AddChildren": access.Submit, "SubmitStream": access.Submit, "Get": access.View, "List": access.View, "Count": access.View, "ListErrors": access.View, "Wait": access.View,
	"Why": access.View, "Tree": access.View, "SubmitWorkflow": access.Submit, "GetWorkflow": access.View, "RetryWorkflow": access.Manage, "Signal": access.Submit, "TaskLogs": access.Submit, "Events": access.View, "ListTypes": access.View, "Overview": access.View, "ListKeys": access.View, "GetKey": access.View,
	"GetDocument": access.View, "ListDocuments": access.View, "SetDocument": access.Manage, "DeleteDocument": access.Manage,
	"ListWorkers": access.View, "ListLimits": access.View, "GetLimit": access.View, "WatchLimits": access.View, "WhyLimit": access.View, "ListAlerts": access.View,
	"ListSchedules": access.View, "GetSchedule": access.View, "PreviewSchedule": access.View,
	"ListSources": access.View, "GetSource": access.View, "PauseSource": access.Manage, "ResumeSource": access.Manage, "SeekSource": access.Manage,
	"ListSliceSources": access.View, "GetSliceSource": access.View, "ListPlatforms": access.View, "GetPlatform": access.View,
	"SetSlices": access.Manage, "AddPlatform": access.Manage, "ApplyPlatforms": access.Manage, "RemovePlatform": access.Manage, "PauseSlices": access.Manage, "ResumeSlices": access.Manage, "ResetPlatform": access.Manage, "RetrySlices": access.Manage,
	"Cancel": access.Manage, "Resume": access.Manage, "Fail": access.Manage, "Reschedule": access.Manage, "PauseType": access.Manage,
	"ResumeType": access.Manage, "ResumeKey": access.Manage, "SkipKey": access.Manage, "DrainWorker": access.Manage, "SetLimit": access.Manage, "UnsetLimit": access.Manage,
	"SilenceAlerts": access.Manage, "UnsilenceAlerts": access.Manage, "PauseSchedule": access.Manage, "ResumeSchedule": access.Manage,
	"PauseSchedules": access.Manage, "ResumeSchedules": access.Manage, "TriggerSchedule": access.Manage, "BackfillSchedule": access.Manage,
	"ListNodes": access.View, "DrainNode": access.Admin, "ApplyConfig": access.Admin,
	"ApplySchedule": access.Admin, "ApplySchedules": access.Admin, "DeleteSchedule": access.Admin, "DeleteSchedules": access.Admin, "TestAlerts": access.Admin,
	"AddToken": access.Admin, "ListTokens": access.Admin, "RevokeToken": access.Admin, "RotateToken": access.Admin, "RevokeSessions": access.Admin,
	"SetTask": access.Manage, "DeleteTask": access.Admin, "PreviewBulkJob": access.View, "ListBulkJobs": access.View, "GetBulkJob": access.View, "StartBulkJob": access.Manage, "PauseBulkJob": access.Manage, "ContinueBulkJob": access.Manage, "SetBulkJobRate": access.Manage, "StopBulkJob": access.Manage,
	"Version": "",
}

func TestEveryMethodNeedsATokenWithItsRole(t *testing.T) {
	g := newGuarded(t, of("view", access.View), of("submit", access.Submit), of("work", access.Work), of("manage", access.Manage),
		of("operate", access.Operate), of("reveal", access.Reveal), of("admin", access.Admin))
	c := g.library(t, g.tcp.Addr().String())
	for _, m := range descriptors() {
		role, known := least[string(m.Name())]
		if !known {
			t.Errorf("the test does not know which role %s needs", m.Name())
		}
		for _, has := range access.Roles() {
			err := request(withToken(t.Context(), string(has)), c, m, func(proto.Message) {})
			token := access.Token{Roles: []access.Role{has}}
			may := role == "" || token.May(role)
			if denied := status.Code(err) == codes.PermissionDenied; denied == may || denied && !strings.Contains(err.Error(), "needs the role "+string(role)) {
				t.Errorf("%s with the role %s: %v", m.Name(), has, err)
			}
		}
		for _, token := range []string{"", "wrong"} {
			if err := request(withToken(t.Context(), token), c, m, func(proto.Message) {}); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s with the token %q: %v", m.Name(), token, err)
			}
		}
	}
}

// Whatever method a token for other types calls, it learns nothing of a task and changes nothing.
func TestATokenForOtherTypesReachesNoTask(t *testing.T) {
	g := newGuarded(t, of("mail", access.Admin, "mail", "mail-*"), of("all", access.Admin))
	c := g.library(t, g.tcp.Addr().String())
	id := g.submit(t, &taskenginev1.NewTask{Type: "idle", Key: "k", OrderingKey: "o"})
	if _, err := g.client(t).StartBulkJob(t.Context(), &taskenginev1.StartBulkJobRequest{Name: "job", Order: &taskenginev1.BulkOrder{Verb: "cancel", Where: "type=other"}}); err != nil {
		t.Fatal(err)
	}
	fill := func(m proto.Message) {
		req := m.ProtoReflect()
		set := func(name string, v protoreflect.Value) {
			if f := req.Descriptor().Fields().ByName(protoreflect.Name(name)); f != nil {
				req.Set(f, v)
			}
		}
		field := func(name string) protoreflect.FieldDescriptor {
			return req.Descriptor().Fields().ByName(protoreflect.Name(name))
		}
		set("id", protoreflect.ValueOfString(id))
		switch req.Descriptor().Name() {
		case "PauseTypeRequest", "ResumeTypeRequest":
			set("type", protoreflect.ValueOfString("idle"))
		case "WaitRequest":
			req.Mutable(field("ids")).List().Append(protoreflect.ValueOfString(id))
		case "SubmitRequest":
			list := req.Mutable(field("tasks")).List()
			task := list.NewElement()
			task.Message().Set(task.Message().Descriptor().Fields().ByName("type"), protoreflect.ValueOfString("idle"))
			list.Append(task)
		case "SubmitWithChildrenRequest":
			task := req.Mutable(field("task")).Message()
			task.Set(task.Descriptor().Fields().ByName("type"), protoreflect.ValueOfString("idle"))
		case "SignalRequest":
			set("name", protoreflect.ValueOfString("paid"))
		case "GetBulkJobRequest", "PauseBulkJobRequest", "ContinueBulkJobRequest", "SetBulkJobRateRequest", "StopBulkJobRequest":
			set("name", protoreflect.ValueOfString("job"))
		case "SetTaskRequest":
			values := req.Mutable(field("values")).Message()
			values.Set(values.Descriptor().Fields().ByName("priority"), protoreflect.ValueOfUint32(1))
		case "RescheduleRequest":
			in := req.Mutable(field("in")).Message()
			in.Set(in.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(60))
		}
	}
	for _, m := range descriptors() {
		switch m.Name() {
		case "Version", "ListTypes", "Overview", "ListBulkJobs", "SubmitStream": // these have tests of their own
			continue
		}
		if err := request(withToken(t.Context(), "mail"), c, m, fill); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "the token mail") {
			t.Errorf("%s: %v", m.Name(), err)
		}
	}
	res, err := g.client(t).Get(t.Context(), &taskenginev1.GetRequest{Id: id})
	if err != nil || res.GetTask().GetVersion() != 1 {
		t.Errorf("the task is %v, %v", res, err)
	}
	for _, req := range []*taskenginev1.GetRequest{{Type: "idle", OrderingKey: "o", Key: "k"}, {Type: "idle", Key: "none"}} {
		if err := c.Invoke(withToken(t.Context(), "mail"), taskenginev1connect.TaskServiceGetProcedure, req, new(taskenginev1.GetResponse)); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%v: %v", req, err)
		}
	}
	bulk := new(taskenginev1.ListBulkJobsResponse)
	if err := c.Invoke(withToken(t.Context(), "mail"), taskenginev1connect.TaskServiceListBulkJobsProcedure, new(taskenginev1.ListBulkJobsRequest), bulk); err != nil || len(bulk.GetJobs()) != 0 {
		t.Errorf("the jobs are %v, %v", bulk, err)
	}
	types := new(taskenginev1.ListTypesResponse)
	if err := c.Invoke(withToken(t.Context(), "mail"), taskenginev1connect.TaskServiceListTypesProcedure, new(taskenginev1.ListTypesRequest), types); err != nil || len(types.GetTypes()) != 0 {
		t.Errorf("the types are %v, %v", types, err)
	}
	overview := new(taskenginev1.OverviewResponse)
	if err := c.Invoke(withToken(t.Context(), "mail"), taskenginev1connect.TaskServiceOverviewProcedure, new(taskenginev1.OverviewRequest), overview); err != nil || len(overview.GetNodes()) != 1 || len(overview.GetNodes()[0].GetTypes()) != 0 {
		t.Errorf("the overview is %v, %v", overview, err)
	}
}

func TestATokenForATypeReachesItsTasks(t *testing.T) {
	g := newGuarded(t, of("idle", access.Operate, "id*"))
	c := g.library(t, g.tcp.Addr().String())
	submitted := new(taskenginev1.SubmitResponse)
	err := c.Invoke(withToken(t.Context(), "idle"), taskenginev1connect.TaskServiceSubmitProcedure, &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "idle"}}}, submitted)
	if err != nil {
		t.Fatal(err)
	}
	id := submitted.GetReceipts()[0].GetId()
	for procedure, req := range map[string]proto.Message{
		"Get": &taskenginev1.GetRequest{Id: id}, "Why": &taskenginev1.WhyRequest{Id: id}, "List": &taskenginev1.ListRequest{Types: []string{"idle"}},
		"Count": &taskenginev1.CountRequest{Types: []string{"idle", "id-2"}}, "ListErrors": &taskenginev1.ListErrorsRequest{Types: []string{"idle", "id-2"}}, "Cancel": &taskenginev1.CancelRequest{Id: id}, "PauseType": &taskenginev1.PauseTypeRequest{Type: "idle"},
	} {
		res := dynamicpb.NewMessage(taskenginev1.File_taskengine_v1_taskengine_proto.Services().ByName("TaskService").Methods().ByName(protoreflect.Name(procedure)).Output())
		if err := c.Invoke(withToken(t.Context(), "idle"), "/taskengine.v1.TaskService/"+procedure, req, res); err != nil {
			t.Errorf("%s: %v", procedure, err)
		}
	}
}

// A request of a stream that the token does not allow is refused alone. When the token is revoked, the stream ends.
func TestAStreamAsksForEachTask(t *testing.T) {
	g := newGuarded(t, of("idle", access.Submit, "idle"))
	s, err := g.library(t, g.tcp.Addr().String()).NewStream(withToken(t.Context(), "idle"), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, taskenginev1connect.TaskServiceSubmitStreamProcedure)
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		t.Helper()
		err := s.SendMsg(&taskenginev1.SubmitStreamRequest{Tasks: []*taskenginev1.StreamedTask{
			{Sequence: 1, Task: &taskenginev1.NewTask{Type: "idle"}}, {Sequence: 2, Task: &taskenginev1.NewTask{Type: "echo"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	send()
	outcomes := make(map[uint64]*taskenginev1.SubmitOutcome)
	for len(outcomes) < 2 {
		res := new(taskenginev1.SubmitStreamResponse)
		if err := s.RecvMsg(res); err != nil {
			t.Fatal(err)
		}
		for _, o := range res.GetOutcomes() {
			outcomes[o.GetSequence()] = o
		}
	}
	if outcomes[1].GetReceipt() == nil || outcomes[2].GetError().GetCode() != "permission_denied" {
		t.Errorf("the outcomes are %v", outcomes)
	}
	g.set(t)
	send()
	if err := s.RecvMsg(new(taskenginev1.SubmitStreamResponse)); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("after the token was revoked: %v", err)
	}
}

func TestEveryProtocolAsksForAToken(t *testing.T) {
	g := newGuarded(t, of("idle", access.Submit, "idle"))
	for name, c := range map[string]struct {
		h2      bool
		options []connect.ClientOption
	}{
		"gRPC":                       {true, []connect.ClientOption{connect.WithGRPC()}},
		"gRPC-Web over HTTP/1.1":     {false, []connect.ClientOption{connect.WithGRPCWeb()}},
		"Connect over HTTP/1.1":      {false, nil},
		"Connect JSON over HTTP/1.1": {false, []connect.ClientOption{connect.WithProtoJSON()}},
	} {
		for token, want := range map[string]connect.Code{"": connect.CodeUnauthenticated, "Bearer wrong": connect.CodeUnauthenticated, "idle": connect.CodeUnauthenticated, "Bearer idle": connect.CodePermissionDenied} {
			h := httpClient(t, c.h2)
			transport := h.Transport
			h.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				r.Header.Set("Authorization", token)
				return transport.RoundTrip(r)
			})
			client := taskenginev1connect.NewTaskServiceClient(h, "http://"+g.tcp.Addr().String(), c.options...)
			if _, err := client.PauseType(t.Context(), &taskenginev1.PauseTypeRequest{Type: "idle"}); connect.CodeOf(err) != want {
				t.Errorf("%s with %q: %v", name, token, err)
			}
			stream, err := client.SubmitStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(&taskenginev1.SubmitStreamRequest{}) // its error is that of Receive
			_ = stream.CloseRequest()
			if _, err := stream.Receive(); c.h2 && want == connect.CodeUnauthenticated && connect.CodeOf(err) != want {
				t.Errorf("%s with %q: a stream ends with %v", name, token, err)
			}
			_ = stream.CloseResponse()
		}
	}
	if _, page := get(t, admin(t, g.health, g.metrics), "/metrics", ""); !strings.Contains(page, `taskengine_api_request_seconds_count{code="unauthenticated",method="PauseType"}`) {
		t.Error("the metrics do not count requests without a token")
	}
}

// roundTrip is a function that sends a request.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestCallersOnTheSocketNeedNoToken(t *testing.T) {
	g := newGuarded(t, of("submit", access.Submit))
	path := filepath.Join(t.TempDir(), "api.sock")
	listenTo(t, server.ListenConfig{Address: "unix:" + path, Handler: g.api, GRPC: g.api.GRPC(), SocketMode: 0o600})
	c := g.library(t, "unix:"+path)
	pause := func(token string) error {
		return c.Invoke(withToken(t.Context(), token), taskenginev1connect.TaskServicePauseTypeProcedure, &taskenginev1.PauseTypeRequest{Type: "idle"}, new(taskenginev1.PauseTypeResponse))
	}
	if err := pause(""); err != nil {
		t.Errorf("without a token: %v", err)
	}
	if err := pause("submit"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("with a token that does not allow it: %v", err)
	}
}

// The type "" stands for any: a worker that may not add tasks of all types may not signal a task whose type it does not name.
func TestAWorkerAddsAndSignalsTasksOfTheTypesOfItsToken(t *testing.T) {
	g := newGuarded(t, of("work", access.Work),
		access.Token{Name: "both", Roles: []access.Role{access.Work, access.Submit}},
		access.Token{Name: "mails", Roles: []access.Role{access.Work, access.Submit}, Types: []string{"mail-*"}})
	var types atomic.Value // that the worker adds or signals
	api := server.NewAPI(server.APIConfig{Engine: g.engine, Tokens: g.tokens.Load, Register: func(r grpc.ServiceRegistrar, _, adds func(context.Context, ...string) error) {
		r.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Workers", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
			{StreamName: "Do", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
				return adds(s.Context(), types.Load().([]string)...)
			}},
		}}, nil)
	}})
	l := listenTo(t, server.ListenConfig{Handler: api, GRPC: api.GRPC()})
	c := g.library(t, l.Addr().String())
	for _, some := range []struct {
		types []string
		with  map[string]codes.Code
	}{
		{nil, map[string]codes.Code{"work": codes.PermissionDenied, "both": codes.OK, "mails": codes.OK}},
		{[]string{"mail-big"}, map[string]codes.Code{"work": codes.PermissionDenied, "both": codes.OK, "mails": codes.OK}},
		{[]string{"mail-big", "payout"}, map[string]codes.Code{"both": codes.OK, "mails": codes.PermissionDenied}},
		{[]string{""}, map[string]codes.Code{"work": codes.PermissionDenied, "both": codes.OK, "mails": codes.PermissionDenied}},
	} {
		types.Store(some.types)
		for token, want := range some.with {
			stream, err := c.NewStream(withToken(t.Context(), token), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Workers/Do")
			if err != nil {
				t.Fatal(err)
			}
			err = stream.RecvMsg(new(taskenginev1.VersionResponse))
			if err == io.EOF {
				err = nil
			}
			if status.Code(err) != want {
				t.Errorf("with %q for %q: %v, want %v", token, some.types, err, want)
			}
		}
	}
}

// Streams of workers are served beside the API.
func TestAWorkerNeedsATokenWithItsRoleAndForItsTypes(t *testing.T) {
	g := newGuarded(t, of("operate", access.Operate), of("work", access.Work), of("admin", access.Admin), of("mails", access.Work, "mail-*"))
	var runs atomic.Value // the type that the worker runs
	runs.Store("mail-big")
	api := server.NewAPI(server.APIConfig{Engine: g.engine, Tokens: g.tokens.Load, Register: func(r grpc.ServiceRegistrar, permit, _ func(context.Context, ...string) error) {
		r.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Workers", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
			{StreamName: "Do", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
				if err := permit(s.Context(), runs.Load().(string)); err != nil {
					return err
				}
				for {
					if err := s.RecvMsg(new(taskenginev1.VersionRequest)); err != nil {
						if err == io.EOF {
							err = nil
						}
						return err
					}
					if err := s.SendMsg(new(taskenginev1.VersionResponse)); err != nil {
						return err
					}
				}
			}},
		}}, nil)
	}})
	l := listenTo(t, server.ListenConfig{Handler: api, GRPC: api.GRPC()})
	c := g.library(t, l.Addr().String())
	open := func(token string) (grpc.ClientStream, error) {
		stream, err := c.NewStream(withToken(t.Context(), token), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Workers/Do")
		if err != nil {
			t.Fatal(err)
		}
		return stream, pass(stream)
	}
	for token, want := range map[string][2]codes.Code{
		"": {codes.Unauthenticated, codes.Unauthenticated}, "operate": {codes.PermissionDenied, codes.PermissionDenied},
		"work": {codes.OK, codes.OK}, "admin": {codes.OK, codes.OK}, "mails": {codes.OK, codes.PermissionDenied},
	} {
		for i, typ := range []string{"mail-big", "payout"} {
			runs.Store(typ)
			stream, err := open(token)
			if status.Code(err) != want[i] {
				t.Errorf("with %q for %s: %v", token, typ, err)
			}
			_ = stream.CloseSend() // its error is that of the stream
		}
	}
	runs.Store("mail-big")
	stream, err := open("work")
	if err != nil {
		t.Fatal(err)
	}
	g.set(t, of("admin", access.Admin))
	if err := pass(stream); status.Code(err) != codes.Unauthenticated {
		t.Errorf("after its token was revoked: %v", err)
	}
}

// pass sends a message over a stream and waits for the answer.
func pass(s grpc.ClientStream) error {
	if err := s.SendMsg(new(taskenginev1.VersionRequest)); err != nil && err != io.EOF { // RecvMsg returns the reason
		return err
	}
	return s.RecvMsg(new(taskenginev1.VersionResponse))
}
