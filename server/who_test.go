package server_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// as returns a client with a token.
func (g *guarded) as(t testing.TB, token string) taskenginev1connect.TaskServiceClient {
	h := httpClient(t, true)
	transport := h.Transport
	h.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		r.Header.Set("Authorization", "Bearer "+token)
		return transport.RoundTrip(r)
	})
	return taskenginev1connect.NewTaskServiceClient(h, "http://"+g.tcp.Addr().String())
}

// The request to pause a type has no author: the token has one.
func TestEveryPlaceThatSaysWhoChangedSomethingHasTheNameOfTheToken(t *testing.T) {
	g, log := newGuarded(t, of("ops", access.Operate)), new(logtest.Buffer)
	g.api = server.NewAPI(server.APIConfig{Engine: g.engine, Tokens: g.tokens.Load, Log: slog.New(slog.NewTextHandler(log, nil))})
	g.tcp = listenBoth(t, g.api)
	t.Cleanup(g.api.Drain)
	c, ctx := g.as(t, "ops"), t.Context()
	if _, err := c.PauseType(ctx, &taskenginev1.PauseTypeRequest{Type: "idle"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "by=ops") {
		t.Errorf("the log has %s", log)
	}
	id := g.submit(t, &taskenginev1.NewTask{Type: "idle"})
	why, err := c.Why(ctx, &taskenginev1.WhyRequest{Id: id})
	if err != nil || len(why.GetReasons()) == 0 || !strings.HasPrefix(why.GetReasons()[0].GetText(), "type idle is paused, by ops since 20") {
		t.Errorf("it does not run because of %v, %v", why.GetReasons(), err)
	}
	for reason, want := range map[string]string{"": "cancelled by ops", "doubled": "ops: doubled"} {
		id := g.submit(t, &taskenginev1.NewTask{Type: "idle"})
		res, err := c.Cancel(ctx, &taskenginev1.CancelRequest{Id: id, Reason: reason})
		if err != nil || res.GetTask().GetError() != want {
			t.Errorf("a task that is cancelled for %q has the error %q, %v", reason, res.GetTask().GetError(), err)
		}
	}
	id = g.submit(t, &taskenginev1.NewTask{Type: "idle"})
	if res, err := c.Fail(ctx, &taskenginev1.FailRequest{Id: id, Reason: "no use"}); err != nil || res.GetTask().GetError() != "ops: no use" {
		t.Errorf("a failed task has the error %q, %v", res.GetTask().GetError(), err)
	}
}
