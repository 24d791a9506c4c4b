package server_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/server/sessions"
)

func TestSessionsOfAPersonAreEndedByTheAPI(t *testing.T) {
	g, audit := newGuarded(t, of("boss", access.Admin)), new(logtest.Buffer)
	ended, err := sessions.Open(t.Context(), sessions.Config{Settings: g.engine.Settings(), Session: time.Hour, Now: g.engine.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	api := server.NewAPI(server.APIConfig{Engine: g.engine, Tokens: g.tokens.Load, Sessions: ended, Audit: slog.New(slog.NewJSONHandler(audit, nil))})
	t.Cleanup(api.Drain)
	without := g.as(t, "boss")
	g.tcp = listenBoth(t, api)
	boss := g.as(t, "boss")
	session := &access.Session{Person: "ann@example.com", Subject: "1", Begun: ended.Time()}
	res, err := boss.RevokeSessions(t.Context(), &taskenginev1.RevokeSessionsRequest{Person: "oidc:ann@example.com", By: "bob"})
	if err != nil || res.GetBefore().AsTime().Before(session.Begun) {
		t.Fatalf("it gives %v, %v", res, err)
	}
	later := &access.Session{Person: "ann@example.com", Subject: "1", Begun: ended.Time()}
	for s, want := range map[*access.Session]bool{session: true, later: false, {Person: "bob@example.com", Begun: session.Begun}: false} {
		if is, err := ended.Has(s); is != want || err != nil {
			t.Errorf("the session of %s has ended: %v, %v", s.Person, is, err)
		}
	}
	for _, says := range []string{`"verb":"RevokeSessions"`, `ann@example.com`, `"who":"boss"`} {
		if !strings.Contains(audit.String(), says) {
			t.Errorf("the audit log does not have %s: %s", says, audit)
		}
	}
	for says, one := range map[string]struct {
		client taskenginev1connect.TaskServiceClient
		req    *taskenginev1.RevokeSessionsRequest
		code   connect.Code
	}{
		"the name of a person is": {boss, &taskenginev1.RevokeSessionsRequest{Person: "oidc:"}, connect.CodeInvalidArgument},
		"without spaces":          {boss, &taskenginev1.RevokeSessionsRequest{Person: "a b"}, connect.CodeInvalidArgument},
		"by has 201 bytes":        {boss, &taskenginev1.RevokeSessionsRequest{Person: "ann", By: strings.Repeat("x", 201)}, connect.CodeInvalidArgument},
		"ui.oidc":                 {without, &taskenginev1.RevokeSessionsRequest{Person: "ann"}, connect.CodeFailedPrecondition},
	} {
		if _, err := one.client.RevokeSessions(t.Context(), one.req); connect.CodeOf(err) != one.code || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %v with %q", err, one.code, says)
		}
	}
}
