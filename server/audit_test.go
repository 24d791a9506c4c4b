package server_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// auditedNode returns a node with an audit log of its API.
func auditedNode(t *testing.T, tokens ...access.Token) (*guarded, *logtest.Buffer) {
	t.Helper()
	g, log := newGuarded(t, tokens...), new(logtest.Buffer)
	c := server.APIConfig{Engine: g.engine, Audit: slog.New(slog.NewJSONHandler(log, nil))}
	if len(tokens) > 0 {
		c.Tokens = g.tokens.Load
	}
	g.api = server.NewAPI(c)
	g.tcp = listenBoth(t, g.api)
	t.Cleanup(g.api.Drain)
	return g, log
}

// lines returns the lines of an audit log, without the time and the port of the client.
func lines(t *testing.T, log *logtest.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if at, err := time.Parse(time.RFC3339Nano, one["time"].(string)); err != nil || time.Since(at) > time.Hour {
			t.Errorf("the time of %s is %v, %v", line, at, err)
		}
		if host, _, err := net.SplitHostPort(one["from"].(string)); err == nil {
			one["from"] = host
		}
		maps.DeleteFunc(one, func(k string, _ any) bool { return k == "time" || k == "level" || k == "msg" })
		all = append(all, one)
	}
	return all
}

// A line has the caller, its address, the verb, its object and the outcome, on both servers, and is written before the answer.
func TestEachManagementVerbHasAnAuditLine(t *testing.T) {
	g, log := auditedNode(t, of("ops", access.Operate), of("boss", access.Admin), of("shop", access.Submit, "idle"))
	c := g.library(t, g.tcp.Addr().String())
	id := g.submit(t, &taskenginev1.NewTask{Type: "idle", Input: &taskenginev1.NewTask_Text{Text: "secret"}})
	for _, step := range []struct {
		token, verb string
		req, res    proto.Message
		want        map[string]any // nil: there is no line
	}{
		{"ops", "Get", &taskenginev1.GetRequest{Id: id}, new(taskenginev1.GetResponse), nil},
		{"ops", "Reschedule", &taskenginev1.RescheduleRequest{Id: id, Time: &taskenginev1.RescheduleRequest_In{In: durationpb.New(time.Minute)}}, new(taskenginev1.RescheduleResponse), map[string]any{
			"who": "ops", "outcome": "ok", "what": map[string]any{"id": id, "in": "1m0s"},
		}},
		{"ops", "Cancel", &taskenginev1.CancelRequest{Id: id, Reason: "wrong"}, new(taskenginev1.CancelResponse), map[string]any{
			"who": "ops", "outcome": "ok", "what": map[string]any{"id": id, "reason": "wrong"},
		}},
		{"ops", "SetLimit", &taskenginev1.SetLimitRequest{Name: "none", Max: proto.Uint32(0), Rate: &taskenginev1.Rate{Count: 3}}, new(taskenginev1.SetLimitResponse), map[string]any{
			"who": "ops", "outcome": "not_found", "what": map[string]any{"name": "none", "max": 0.0, "rate": map[string]any{"count": 3.0}},
		}},
		{"boss", "ApplySchedule", &taskenginev1.ApplyScheduleRequest{Name: "s", Definition: &taskenginev1.ScheduleDefinition{
			Every: durationpb.New(time.Hour), Task: &taskenginev1.ScheduleTask{Type: "idle", Payload: "secret", Headers: map[string]string{"a": "secret"}},
		}}, new(taskenginev1.ApplyScheduleResponse), map[string]any{
			"who": "boss", "outcome": "ok", "what": map[string]any{"name": "s", "definition": map[string]any{"every": "1h0m0s", "task": map[string]any{"type": "idle"}}},
		}},
		{"shop", "PauseType", &taskenginev1.PauseTypeRequest{Type: "idle"}, new(taskenginev1.PauseTypeResponse), map[string]any{"who": "shop", "outcome": "permission_denied"}},
		{"ops", "PauseType", &taskenginev1.PauseTypeRequest{Type: strings.Repeat("é", 5000)}, new(taskenginev1.PauseTypeResponse), map[string]any{
			"who": "ops", "outcome": "invalid_argument", "what": map[string]any{"type": strings.Repeat("é", 250) + "…"},
		}},
		{"wrong", "Cancel", &taskenginev1.CancelRequest{Id: id}, new(taskenginev1.CancelResponse), nil},
	} {
		before := len(lines(t, log))
		_ = c.Invoke(withToken(t.Context(), step.token), "/taskengine.v1.TaskService/"+step.verb, step.req, step.res) // the line has its error
		added := lines(t, log)[before:]
		if step.want == nil {
			if len(added) > 0 {
				t.Errorf("%s has the lines %v", step.verb, added)
			}
			continue
		}
		step.want["verb"], step.want["from"] = step.verb, "127.0.0.1"
		if len(added) != 1 {
			t.Errorf("%s has the lines %v", step.verb, added)
			continue
		}
		if said, ok := added[0]["error"]; ok == (step.want["outcome"] == "ok") || ok && said == "" {
			t.Errorf("%s has the error %q", step.verb, said)
		}
		delete(added[0], "error")
		if diff := cmp.Diff(step.want, added[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.verb, diff)
		}
	}
	if text := log.String(); strings.Contains(text, "secret") {
		t.Errorf("the log has the content of a task: %s", text)
	}
}

func TestCallersWithoutATokenHaveAuditLines(t *testing.T) {
	g, log := auditedNode(t)
	path := filepath.Join(t.TempDir(), "api.sock")
	listenTo(t, server.ListenConfig{Address: "unix:" + path, Handler: g.api, GRPC: g.api.GRPC(), SocketMode: 0o600})
	for _, address := range []string{g.tcp.Addr().String(), "unix:" + path} {
		c := g.library(t, address)
		if err := c.Invoke(t.Context(), taskenginev1connect.TaskServicePauseTypeProcedure, &taskenginev1.PauseTypeRequest{Type: "idle"}, new(taskenginev1.PauseTypeResponse)); err != nil {
			t.Fatal(err)
		}
	}
	other := taskenginev1connect.NewTaskServiceClient(httpClient(t, false), "http://"+g.tcp.Addr().String())
	if _, err := other.ResumeType(t.Context(), &taskenginev1.ResumeTypeRequest{Type: "idle"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range lines(t, log) {
		got = append(got, line["who"].(string)+" "+line["verb"].(string)+" "+line["outcome"].(string))
	}
	if diff := cmp.Diff([]string{"unknown PauseType ok", "local PauseType ok", "unknown ResumeType ok"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
