package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// received has the responses of a stream of a task's log.
type received struct {
	lines     []*taskenginev1.LogLine
	cursor    string
	complete  bool
	elsewhere []*taskenginev1.RanElsewhere
}

func (r *received) messages() string {
	texts := make([]string, len(r.lines))
	for i, l := range r.lines {
		texts[i] = l.GetMessage()
	}
	return strings.Join(texts, ",")
}

// logs reads one stream to its end. heard is called after each response.
func logs(t *testing.T, c taskenginev1connect.TaskServiceClient, req *taskenginev1.TaskLogsRequest, heard func(*received)) (*received, error) {
	t.Helper()
	stream, err := c.TaskLogs(t.Context(), req)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	r := new(received)
	for stream.Receive() {
		if r.complete {
			t.Error("something follows the last response")
		}
		r.lines = append(r.lines, stream.Msg().GetLines()...)
		r.cursor, r.complete, r.elsewhere = stream.Msg().GetCursor(), stream.Msg().GetComplete(), stream.Msg().GetElsewhere()
		if heard != nil {
			heard(r)
		}
	}
	return r, stream.Err()
}

func TestTheLogOfATaskIsSentOverEveryProtocol(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	n.release <- struct{}{}
	n.settle(t, id)
	for name, c := range map[string]taskenginev1connect.TaskServiceClient{
		"gRPC":                     n.client(t),
		"gRPC-Web":                 n.clientOf(t, false, connect.WithGRPCWeb()),
		"Connect over HTTP/1.1":    n.clientOf(t, false),
		"Connect JSON over HTTP/2": n.clientOf(t, true, connect.WithProtoJSON()),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := logs(t, c, &taskenginev1.TaskLogsRequest{Id: id}, nil)
			if err != nil || !got.complete || got.messages() != "held,released" {
				t.Fatalf("the log is %v (%v)", got, err)
			}
			first := got.lines[0]
			if first.GetAttempt() != 1 || first.GetLevel() != "WARN" || first.GetAttrs() != `{"attempt":1}` || time.Since(first.GetTime().AsTime()) > time.Minute {
				t.Errorf("the first line is %v", first)
			}
			if _, err := logs(t, c, &taskenginev1.TaskLogsRequest{Id: "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"}, nil); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("a task that is not there gives %v", err)
			}
		})
	}
}

func TestALogSaysWhichAttemptsRanOnOtherNodes(t *testing.T) {
	first := local.New()
	n := newMember(t, first)
	fails := errors.New("not here")
	other, err := engine.Open(t.Context(), engine.Config{
		Name: "n2", Store: n.store.Store, Coordinator: first.Peer().Coordinator(),
		Handlers: map[string]task.Handler{"elsewhere": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(fails) })},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	id := n.submit(t, &taskenginev1.NewTask{Type: "elsewhere"})
	if err := n.engine.WaitTasks(t.Context(), mustID(t, id)); err != nil {
		t.Fatal(err)
	}
	want := []*taskenginev1.RanElsewhere{{Attempt: 1, Node: "n2", Alive: true}}
	for _, follow := range []bool{false, true} {
		got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: id, Follow: follow}, nil)
		if err != nil || !got.complete || len(got.lines) != 0 || cmp.Diff(want, got.elsewhere, protocmp.Transform()) != "" {
			t.Errorf("with follow %v the log is %v, and says %v (%v)", follow, got, got.elsewhere, err)
		}
	}
	got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: id, Attempt: 2}, nil)
	if err != nil || len(got.elsewhere) != 0 {
		t.Errorf("of another attempt the log says %v (%v)", got.elsewhere, err)
	}
}

func mustID(t *testing.T, text string) task.ID {
	t.Helper()
	id, err := task.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestALogIsFollowedUntilTheTaskHasEnded(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "hold", Input: &taskenginev1.NewTask_Text{Text: "abcd"}})
	released := false
	got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: id, Follow: true}, func(r *received) {
		if !released && r.messages() == "held" {
			released = true
			n.release <- struct{}{}
		}
	})
	const full = "the log of this attempt is full: further lines are dropped"
	if err != nil || !released || !got.complete || got.messages() != "held,released,more,"+full+",3 lines were dropped" {
		t.Fatalf("the log is %v (%v)", got, err)
	}
	if last := got.lines[len(got.lines)-1]; last.GetDropped() != 3 {
		t.Errorf("the last line is %v", last)
	}
	again, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: id, Follow: true, Cursor: got.cursor}, nil)
	if err != nil || !again.complete || len(again.lines) > 0 {
		t.Errorf("after the end the log is %v (%v)", again, err)
	}
}

func TestAStreamEndsWhenItsTimeIsOverAndGoesOnFromItsCursor(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	n.until(t, id, "processing")
	all, cursor := "", ""
	for {
		got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{
			Id: id, Follow: true, Cursor: cursor, Timeout: durationpb.New(300 * time.Millisecond),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		all, cursor = all+got.messages()+";", got.cursor
		if got.complete {
			break
		}
		if strings.HasSuffix(all, "held;;") { // a stream has ended without a line
			n.release <- struct{}{}
		}
	}
	if all = strings.Trim(all, ";"); !strings.HasPrefix(all, "held;;") || !strings.HasSuffix(all, ";released") {
		t.Errorf("stream by stream the log is %s", all)
	}
}

func TestAFollowerOfABusyLogIsSentManyLinesAtOnce(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	enough := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := uint32(1); ; i++ { // the node's log takes three lines of an attempt
			n.log.Log(refOf(t, id).ID, i, slog.NewRecord(time.Now(), slog.LevelInfo, "m", 0))
			if err := n.log.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			select {
			case <-enough:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	begin, parts := time.Now(), 0
	got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: id, Follow: true, Timeout: durationpb.New(time.Second)},
		func(*received) { parts++ })
	close(enough)
	busy.Wait()
	if err != nil {
		t.Fatal(err)
	}
	many := len(got.lines)/500 + 2 // the full ones, and the first and the last
	if most := int(time.Since(begin)/(100*time.Millisecond)) + many; parts > most {
		t.Errorf("%d lines came in %d parts, want no more than %d", len(got.lines), parts, most)
	}
}

func TestOneAttemptCanBeChosen(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	for attempt := range uint32(3) {
		n.log.Log(refOf(t, id).ID, attempt+1, slog.NewRecord(time.Now(), slog.LevelInfo, fmt.Sprint("of ", attempt+1), 0))
	}
	got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: id, Attempt: 2}, nil)
	if err != nil || !got.complete || got.messages() != "of 2" {
		t.Errorf("the second attempt has %v (%v)", got, err)
	}
}

func TestALongLogComesInParts(t *testing.T) {
	n := newNode(t)
	id, parts := n.submit(t, &taskenginev1.NewTask{Type: "idle"}), 0
	const attempts = 1100
	for i := range uint32(attempts) {
		n.log.Log(refOf(t, id).ID, i, slog.NewRecord(time.Now(), slog.LevelInfo, fmt.Sprint(i), 0))
	}
	got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: id}, func(*received) { parts++ })
	if err != nil || !got.complete || len(got.lines) != attempts || got.lines[attempts-1].GetMessage() != fmt.Sprint(attempts-1) || parts != 3 {
		t.Errorf("%d lines came in %d parts (%v)", len(got.lines), parts, err)
	}
}

func TestATaskThatWasRemovedStillHasItsLog(t *testing.T) {
	n := newNode(t)
	n.log.Log(task.ID{7}, 1, slog.NewRecord(time.Now(), slog.LevelInfo, "long ago", 0))
	for _, follow := range []bool{false, true} {
		got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: task.ID{7}.String(), Follow: follow}, nil)
		if err != nil || !got.complete || got.messages() != "long ago" {
			t.Errorf("the log is %v (%v)", got, err)
		}
	}
}

func TestInvalidRequestsForLogsAreRefused(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	for name, req := range map[string]*taskenginev1.TaskLogsRequest{
		"no id":            {},
		"an odd id":        {Id: "x"},
		"an odd cursor":    {Id: id, Cursor: "x"},
		"negative timeout": {Id: id, Timeout: durationpb.New(-1)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := logs(t, n.client(t), req, nil); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("it gives %v", err)
			}
		})
	}
	without := listen(t, server.NewAPI(server.APIConfig{Engine: n.engine}), false)
	c := taskenginev1connect.NewTaskServiceClient(httpClient(t, true), "http://"+without.Addr().String(), connect.WithGRPC())
	if _, err := logs(t, c, &taskenginev1.TaskLogsRequest{Id: id}, nil); connect.CodeOf(err) != connect.CodeUnimplemented || !strings.Contains(err.Error(), "task_log.max_size") {
		t.Errorf("a node without a log gives %v", err)
	}
}

func TestAStreamEndsWhenTheNodeStops(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	n.log.Log(refOf(t, id).ID, 1, slog.NewRecord(time.Now(), slog.LevelInfo, "before", 0))
	got, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: id, Follow: true}, func(*received) {
		if err := n.engine.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if connect.CodeOf(err) != connect.CodeUnavailable || got.messages() != "before" || got.complete {
		t.Errorf("it gets %v (%v)", got, err)
	}
}

func TestStreamsAreMeasured(t *testing.T) {
	n := newNode(t)
	if _, err := logs(t, n.client(t), &taskenginev1.TaskLogsRequest{Id: n.submit(t, &taskenginev1.NewTask{Type: "idle"})}, nil); err != nil {
		t.Fatal(err)
	}
	const series = `taskengine_api_request_seconds_count{code="ok",method="TaskLogs"}`
	for begin := time.Now(); ; time.Sleep(time.Millisecond) { // it is counted after the answer
		if _, values := scrape(t, n); values[series] == 1 {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("the metrics lack %s", series)
		}
	}
}
