package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// person returns somebody who has logged in.
func person(t *testing.T, role access.Role, types ...string) *access.Token {
	t.Helper()
	p, err := access.Named("ann@example.com")
	if err != nil {
		t.Fatal(err)
	}
	p.Roles, p.Types, p.Expires = []access.Role{role}, types, time.Now().Add(time.Hour)
	return p
}

// inProcess calls a method of the API as the dashboard does.
func inProcess(ctx context.Context, api http.Handler, method, body string) (code int, answer string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/taskengine.v1.TaskService/"+method, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Result().Body) // of a recorder
	return w.Code, string(text)
}

func TestAPersonHasTheRightsOfTheSessionUntilItEnds(t *testing.T) {
	g, log := auditedNode(t, of("ops", access.Operate))
	ann := person(t, access.Manage, "idle")
	as := func(p *access.Token) context.Context { return access.WithPerson(t.Context(), p) }
	ended := person(t, access.Admin)
	ended.Expires = time.Now()
	for _, one := range []struct {
		who          *access.Token
		method, body string
		code         int
		says         string
	}{
		{nil, "PauseType", `{"type": "idle"}`, 401, "wants a token"},
		{ended, "PauseType", `{"type": "idle"}`, 401, "the session of ann@example.com has ended; log in again"},
		{ann, "PauseType", `{"type": "idle"}`, 200, ""},
		{ann, "PauseType", `{"type": "echo"}`, 403, "the person ann@example.com is for tasks of the types idle"},
		{ann, "ListTokens", `{}`, 403, "which the person ann@example.com does not have"},
		{ann, "Nothing", `{}`, 501, "there is no method"},
	} {
		ctx := t.Context()
		if one.who != nil {
			ctx = as(one.who)
		}
		if code, said := inProcess(ctx, g.api, one.method, one.body); code != one.code || !strings.Contains(said, one.says) {
			t.Errorf("%s%s gives %d: %s; want %d, %s", one.method, one.body, code, said, one.code, one.says)
		}
	}
	all := lines(t, log)
	if len(all) == 0 || all[len(all)-1]["who"] != "oidc:ann@example.com" {
		t.Errorf("the audit lines are %v", all)
	}
}

// Requests over the socket need no token, also those of a proxy. The person behind the proxy has no more rights by that.
func TestAPersonOnTheSocketHasNoMoreRights(t *testing.T) {
	g := newGuarded(t, of("ops", access.Operate))
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "x", Net: "unix"})
	if code, said := inProcess(access.WithPerson(ctx, person(t, access.View)), g.api, "PauseType", `{"type": "idle"}`); code != 403 {
		t.Errorf("it gives %d: %s", code, said)
	}
}

// A node trusts what another one says about the rights of a person: they have the same provider, and the request is signed.
func TestThePersonOfANodeIsKnownToTheOthers(t *testing.T) {
	secrets := local.New()
	c := &company{stopped: make(chan string, 3)}
	c.join(t, secrets, "a", of("ops", access.Operate))
	c.join(t, secrets, "b", of("boss", access.Admin))
	for role, want := range map[access.Role]string{access.View: "a:w-a b:w-b", access.Admin: "a:w-a b:w-b"} {
		code, said := inProcess(access.WithPerson(t.Context(), person(t, role)), c.apis[0], "ListWorkers", `{}`)
		var list taskenginev1.ListWorkersResponse
		if err := protojson.Unmarshal([]byte(said), &list); code != 200 || err != nil || workersText(list.GetWorkers(), list.GetSilent()) != want {
			t.Errorf("with %s it gives %d: %s, %v", role, code, said, err)
		}
	}
}
