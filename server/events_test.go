package server_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// heardEvents are the events of one stream.
type heardEvents struct {
	all    []string // type and state, "gap", or "stored" before those
	cursor string
	node   string
}

func events(t *testing.T, c taskenginev1connect.TaskServiceClient, req *taskenginev1.EventsRequest, until func(*heardEvents) bool) (*heardEvents, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := c.Events(ctx, req)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	h := new(heardEvents)
	for stream.Receive() {
		res := stream.Msg()
		if h.node == "" {
			h.node = "node " + res.GetNode()
		}
		if res.GetGap() != nil {
			h.all = append(h.all, "gap")
		}
		for _, e := range res.GetEvents() {
			text := e.GetTask().GetType() + " " + e.GetTask().GetState()
			if e.GetFromStore() {
				text = "stored " + text
			}
			h.all = append(h.all, text)
		}
		if h.cursor = res.GetCursor(); until != nil && until(h) {
			return h, nil
		}
	}
	return h, stream.Err()
}

func TestEventsAreSentAsTheyComeOverEveryProtocol(t *testing.T) {
	n := newNode(t)
	for name, c := range map[string]taskenginev1connect.TaskServiceClient{
		"gRPC": n.client(t), "Connect over HTTP/1.1": n.clientOf(t, false), "gRPC-Web": n.clientOf(t, false, connect.WithGRPCWeb()),
	} {
		t.Run(name, func(t *testing.T) {
			isSubmitted := false
			got, err := events(t, c, &taskenginev1.EventsRequest{Where: "type=echo state=done"}, func(h *heardEvents) bool {
				if !isSubmitted {
					isSubmitted = true
					n.submit(t, &taskenginev1.NewTask{Type: "idle"})
					n.submit(t, &taskenginev1.NewTask{Type: "echo"})
				}
				return len(h.all) > 0
			})
			if err != nil || len(got.all) != 1 || got.all[0] != "echo done" || got.cursor == "" {
				t.Errorf("%+v, %v", got, err)
			}
			again, err := events(t, c, &taskenginev1.EventsRequest{Cursor: got.cursor, Timeout: durationpb.New(time.Millisecond)}, nil)
			if err != nil || len(again.all) != 0 || again.cursor == "" {
				t.Errorf("after the cursor: %+v, %v", again, err)
			}
		})
	}
}

func TestTheStoreFillsAGap(t *testing.T) {
	n := newNode(t)
	n.settle(t, n.submit(t, &taskenginev1.NewTask{Type: "echo"}))
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	for _, fill := range []bool{false, true} {
		want := "gap"
		if fill {
			want = "gap,stored echo done"
		}
		got, err := events(t, n.client(t), &taskenginev1.EventsRequest{Where: "state=done", Cursor: since, CatchUp: fill}, func(h *heardEvents) bool {
			return len(h.all) >= len(strings.Split(want, ","))
		})
		if err != nil || strings.Join(got.all, ",") != want {
			t.Errorf("catch up %v: %+v, %v", fill, got, err)
		}
	}
}

func TestEventsRefuseWhatTheyCannotSelect(t *testing.T) {
	n := newNode(t)
	for want, req := range map[string]*taskenginev1.EventsRequest{
		"neither the payload nor the result": {Where: "payload.a=1"},
		"where: column 1":                    {Where: "stat=error"},
		"cursor: ":                           {Cursor: "x"},
		"is negative":                        {Cursor: "-1h"},
		"timeout":                            {Timeout: durationpb.New(-time.Second)},
	} {
		if _, err := events(t, n.client(t), req, nil); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", req, err)
		}
	}
}

// serverSent reads server-sent events of a node until one has a text.
func serverSent(t *testing.T, n *node, query url.Values, last, until string, began func()) (text, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.api.Addr().String()+server.EventsPath+"?"+query.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", last)
	res, err := httpClient(t, false).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the answer is %s %s", res.Status, res.Header)
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		text += line + "\n"
		if after, ok := strings.CutPrefix(line, "id: "); ok {
			id = after
		}
		if began != nil {
			began()
			began = nil
		}
		if strings.Contains(line, until) {
			return text, id
		}
	}
	t.Fatalf("the events end without %q:\n%s", until, text)
	return "", ""
}

func TestServerSentEventsGoOnAfterTheLastOne(t *testing.T) {
	n := newNode(t)
	where := url.Values{"where": {"type=echo"}}
	text, last := serverSent(t, n, where, "", `"state":"done"`, func() { n.submit(t, &taskenginev1.NewTask{Type: "echo", Key: "a"}) })
	if !strings.HasPrefix(text, "event: begin\nid: ") || !strings.Contains(text, "event: task\nid: ") || !strings.Contains(text, `"key":"a"`) {
		t.Errorf("the events are\n%s", text)
	}
	id := n.submit(t, &taskenginev1.NewTask{Type: "echo", Key: "b"})
	n.settle(t, id)
	if text, _ = serverSent(t, n, where, last, `"state":"done"`, nil); strings.Contains(text, `"key":"a"`) || !strings.Contains(text, `"key":"b"`) || strings.Contains(text, "gap") {
		t.Errorf("after the last event:\n%s", text)
	}
	where.Set("catch_up", "true")
	where.Set("where", "type=echo state=done")
	for _, from := range []string{"2020-01-01T00:00:00Z", "1h"} {
		if text, _ = serverSent(t, n, where, from, `"key":"a"`, nil); !strings.Contains(text, "event: gap\ndata: ") || !strings.Contains(text, `"from_store":true`) {
			t.Errorf("from %s on:\n%s", from, text)
		}
	}
	res, err := httpClient(t, false).Get("http://" + n.api.Addr().String() + server.EventsPath + "?where=stat%3Derror")
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a mistake is answered by %v", res)
	}
}

// A stream outlives the times that the server gives to a request.
func TestServerSentEventsOutliveTheTimesOfARequest(t *testing.T) {
	n := newNode(t)
	const most = time.Second // a busy machine may begin a request late
	s := httptest.NewUnstartedServer(server.NewAPI(server.APIConfig{Engine: n.engine, Node: "n1"}))
	s.Config.ReadTimeout, s.Config.WriteTimeout = most, most
	s.Start()
	defer s.Close()
	res, err := s.Client().Get(s.URL + server.EventsPath + "?where=type%3Decho")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != "event: begin" {
		t.Fatalf("the first line is %q, %v", lines.Text(), lines.Err())
	}
	time.Sleep(3 * most)
	n.submit(t, &taskenginev1.NewTask{Type: "echo", Key: "late"})
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"key":"late"`) {
			return
		}
	}
	t.Errorf("the events end: %v", lines.Err())
}
