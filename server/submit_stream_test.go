package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// submitting is a SubmitStream of any client.
type submitting interface {
	Send(*taskenginev1.SubmitStreamRequest) error
	Receive() (*taskenginev1.SubmitStreamResponse, error)
	CloseRequest() error
}

// libraryStream is a stream of grpc-go.
type libraryStream struct{ grpc.ClientStream }

func (s libraryStream) Send(m *taskenginev1.SubmitStreamRequest) error { return s.SendMsg(m) }
func (s libraryStream) CloseRequest() error                            { return s.CloseSend() }
func (s libraryStream) Receive() (*taskenginev1.SubmitStreamResponse, error) {
	m := new(taskenginev1.SubmitStreamResponse)
	return m, s.RecvMsg(m)
}

// streams has a SubmitStream by each client that can have one.
func (n *node) streams(t *testing.T) map[string]func(context.Context) submitting {
	byConnect := func(o ...connect.ClientOption) func(context.Context) submitting {
		c := n.clientOf(t, true, o...)
		return func(ctx context.Context) submitting {
			s, err := c.SubmitStream(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	library := n.library(t)
	return map[string]func(context.Context) submitting{
		"Connect": byConnect(), "gRPC": byConnect(connect.WithGRPC()), "grpc-go": func(ctx context.Context) submitting {
			s, err := library.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, taskenginev1connect.TaskServiceSubmitStreamProcedure)
			if err != nil {
				t.Fatal(err)
			}
			return libraryStream{s}
		},
	}
}

func streamed(sequence uint64, m *taskenginev1.NewTask) *taskenginev1.StreamedTask {
	return &taskenginev1.StreamedTask{Sequence: sequence, Task: m}
}

func send(t *testing.T, s submitting, tasks ...*taskenginev1.StreamedTask) {
	t.Helper()
	if err := s.Send(&taskenginev1.SubmitStreamRequest{Tasks: tasks}); err != nil {
		t.Fatal(err)
	}
}

// outcomes receives so many outcomes.
func outcomes(t *testing.T, s submitting, count int) map[uint64]*taskenginev1.SubmitOutcome {
	t.Helper()
	all := make(map[uint64]*taskenginev1.SubmitOutcome)
	for len(all) < count {
		res, err := s.Receive()
		if err != nil {
			t.Fatalf("after %d of %d outcomes: %v", len(all), count, err)
		}
		for _, o := range res.GetOutcomes() {
			if all[o.GetSequence()] != nil {
				t.Errorf("request %d has two outcomes", o.GetSequence())
			}
			all[o.GetSequence()] = o
		}
	}
	return all
}

// end ends a stream, which has no more outcomes.
func end(t *testing.T, s submitting) {
	t.Helper()
	if err := s.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end of the stream comes %v, %v", res, err)
	}
}

func TestAnErrorOfOneRequestDoesNotConcernTheOthersOfItsStream(t *testing.T) {
	n := newNode(t)
	for name, open := range n.streams(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t.Context())
			key := &taskenginev1.NewTask{Type: "idle", Key: name}
			full := &taskenginev1.NewTask{Type: "full", Key: name}
			send(t, s, streamed(1, key), streamed(2, nil), streamed(3, &taskenginev1.NewTask{}), streamed(4, key), streamed(5, &taskenginev1.NewTask{Type: "idle", Id: "x"}))
			send(t, s, streamed(11, full), streamed(12, full), streamed(13, &taskenginev1.NewTask{Type: "full"}), streamed(14, &taskenginev1.NewTask{Type: "full"}))
			send(t, s, streamed(21, &taskenginev1.NewTask{Type: "nobody"}))
			got := outcomes(t, s, 10)
			for sequence, says := range map[uint64]string{2: "task is missing", 3: "type is missing", 5: "not a task id", 14: "max_backlog"} {
				e := got[sequence].GetError()
				if !strings.Contains(e.GetMessage(), says) || (e.GetCode() == "invalid_argument") == (e.GetFull() == "backlog") {
					t.Errorf("request %d gets %v", sequence, got[sequence])
				}
			}
			for first, second := range map[uint64]uint64{1: 4, 11: 12} {
				a, b := got[first].GetReceipt(), got[second].GetReceipt()
				if !a.GetCreated() || b.GetCreated() || b.GetId() != a.GetId() {
					t.Errorf("a request gets %v, and its repetition %v", got[first], got[second])
				}
			}
			if !got[21].GetReceipt().GetCreated() {
				t.Errorf("a task of another type gets %v", got[21])
			}
			end(t, s)
			for _, sequence := range []uint64{11, 13} { // room for the next client
				if _, err := n.client(t).Cancel(t.Context(), &taskenginev1.CancelRequest{Id: got[sequence].GetReceipt().GetId()}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A batch in which one request is rejected has added the others.
func TestOnlyTheRequestWithATakenKeyIsRejectedOnAStream(t *testing.T) {
	n := newNode(t)
	taken, err := n.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "strict", Key: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := n.streams(t)["gRPC"](t.Context())
	send(t, s,
		streamed(1, &taskenginev1.NewTask{Type: "idle"}),
		streamed(2, &taskenginev1.NewTask{Type: "strict", Key: "a"}),
		streamed(3, &taskenginev1.NewTask{Type: "strict", Key: "b"}),
	)
	got := outcomes(t, s, 3)
	for _, sequence := range []uint64{1, 3} {
		if r := got[sequence].GetReceipt(); r.GetOutcome() != "created" {
			t.Errorf("request %d: %v", sequence, got[sequence])
		}
	}
	if e := got[2].GetError(); e.GetCode() != connect.CodeAlreadyExists.String() || !strings.Contains(e.GetMessage(), taken.GetReceipts()[0].GetId()) {
		t.Errorf("the request with a taken key: %v", got[2])
	}
	list, err := n.client(t).List(t.Context(), &taskenginev1.ListRequest{Types: []string{"idle"}})
	if err != nil || len(list.GetTasks()) != 1 {
		t.Errorf("%d tasks were added of one request, %v", len(list.GetTasks()), err)
	}
	if err := s.CloseRequest(); err != nil {
		t.Error(err)
	}
}

func TestRequestsThatArriveTogetherShareACommit(t *testing.T) {
	n := newNode(t)
	for name, open := range n.streams(t) {
		s := open(t.Context())
		var tasks []*taskenginev1.StreamedTask
		for i := range uint64(500) {
			tasks = append(tasks, streamed(i, &taskenginev1.NewTask{Type: "idle"}))
		}
		before := n.store.inserts.Load()
		send(t, s, tasks...)
		outcomes(t, s, len(tasks))
		if got := n.store.inserts.Load() - before; got != 1 {
			t.Errorf("%s: 500 tasks of one message are added by %d commits", name, got)
		}
		end(t, s)
	}
}

// A request that waits for room does not delay requests of other types, and gets its outcome when there is room.
func TestARequestThatWaitsForRoomDelaysNoOtherType(t *testing.T) {
	n := newNode(t)
	for name, open := range n.streams(t) {
		first := n.submit(t, &taskenginev1.NewTask{Type: "calm"})
		s := open(t.Context())
		send(t, s, streamed(1, &taskenginev1.NewTask{Type: "calm"}), streamed(2, &taskenginev1.NewTask{Type: "idle"}))
		if got := outcomes(t, s, 1); got[2].GetReceipt() == nil {
			t.Errorf("%s: the first outcome is %v", name, got)
		}
		if _, err := n.client(t).Cancel(t.Context(), &taskenginev1.CancelRequest{Id: first}); err != nil {
			t.Fatal(err)
		}
		second := outcomes(t, s, 1)[1].GetReceipt()
		if !second.GetCreated() {
			t.Errorf("%s: the task that waited gets %v", name, second)
		}
		end(t, s)
		if _, err := n.client(t).Cancel(t.Context(), &taskenginev1.CancelRequest{Id: second.GetId()}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMalformedMessageEndsItsStreamAfterWhatCameBeforeIsAnswered(t *testing.T) {
	n := newNode(t)
	for name, open := range n.streams(t) {
		s := open(t.Context())
		send(t, s, streamed(1, &taskenginev1.NewTask{Type: "idle"}))
		send(t, s, make([]*taskenginev1.StreamedTask, 1001)...)
		if got := outcomes(t, s, 1); !got[1].GetReceipt().GetCreated() {
			t.Errorf("%s: the requests before get %v", name, got)
		}
		if _, err := s.Receive(); !strings.Contains(fmt.Sprint(err), "1001 tasks, of 1000") {
			t.Errorf("%s: too large a message gets %v", name, err)
		}
	}
	garbage, err := n.library(t).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		taskenginev1connect.TaskServiceSubmitStreamProcedure, grpc.ForceCodec(bytesCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := garbage.SendMsg([]byte("\xff\xff\xff")); err != nil {
		t.Fatal(err)
	}
	if err := garbage.RecvMsg(new([]byte)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a message that is none gets %v", err)
	}
}

// bytesCodec sends bytes as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string                       { return "proto" }
func (bytesCodec) Marshal(m any) ([]byte, error)      { return m.([]byte), nil }
func (bytesCodec) Unmarshal(text []byte, m any) error { *m.(*[]byte) = text; return nil }

func TestAStreamEndsWithTheNewsThatTheNodeStops(t *testing.T) {
	n := newNode(t)
	for name, open := range n.streams(t) {
		t.Run(name, func(t *testing.T) {
			api := n.handler()
			n.api = listenBoth(t, api)
			open = n.streams(t)[name]
			s := open(t.Context())
			send(t, s, streamed(1, &taskenginev1.NewTask{Type: "idle", Key: name}))
			outcomes(t, s, 1)
			api.Drain()
			if res, err := s.Receive(); err != nil || !res.GetStopping() {
				t.Errorf("the stream gets %v, %v", res, err)
			}
			send(t, s, streamed(2, &taskenginev1.NewTask{Type: "idle", Key: name + "2"}))
			if got := outcomes(t, s, 1)[2].GetError(); got.GetCode() != "unavailable" || !strings.Contains(got.GetMessage(), "stopping") {
				t.Errorf("a request that comes later gets %v", got)
			}
			end(t, s)
			if got := n.submitted(t, name+"2"); !got {
				t.Error("a request that was refused has added a task")
			}
		})
	}
}

// submitted adds a task with a key, and reports whether there was none.
func (n *node) submitted(t *testing.T, key string) bool {
	t.Helper()
	receipts, err := n.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "idle", Key: key}}})
	if err != nil {
		t.Fatal(err)
	}
	return receipts.GetReceipts()[0].GetCreated()
}

// The time limits of a listener end another stream, and this one goes on.
func TestAStreamOfSubmitsLastsLongerThanTheLimitsOfAListener(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: n.handler(), Protocols: &p, ReadTimeout: time.Second, WriteTimeout: time.Second}
	go s.Serve(l)
	defer s.Close()
	c := taskenginev1connect.NewTaskServiceClient(httpClient(t, true), "http://"+l.Addr().String(), connect.WithGRPC())
	stream, err := c.SubmitStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, streamed(1, &taskenginev1.NewTask{Type: "idle"}))
	outcomes(t, stream, 1)
	logs, err := c.TaskLogs(t.Context(), &taskenginev1.TaskLogsRequest{Id: id, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	for logs.Receive() {
	}
	if logs.Err() == nil {
		t.Fatal("the listener has no limits")
	}
	send(t, stream, streamed(2, &taskenginev1.NewTask{Type: "idle"}))
	outcomes(t, stream, 1)
	end(t, stream)
}
