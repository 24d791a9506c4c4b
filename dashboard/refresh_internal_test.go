package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// counted is an API with one bulk job, which counts how often it is asked.
type counted struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	asks   atomic.Int32
	denies atomic.Bool // it answers with an error that has the token
}

type authorizationKey struct{}

func (c *counted) ListBulkJobs(ctx context.Context, _ *taskenginev1.ListBulkJobsRequest) (*taskenginev1.ListBulkJobsResponse, error) {
	c.asks.Add(1)
	if c.denies.Load() {
		who, _ := ctx.Value(authorizationKey{}).(string)
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("it is not for "+who))
	}
	return &taskenginev1.ListBulkJobsResponse{Jobs: []*taskenginev1.BulkJob{{Name: "job-1", Verb: "resume"}}}, nil
}

// newCounted returns a dashboard of such an API. The text of a token is its name.
func newCounted(t *testing.T, tokens ...access.Token) (*counted, *dashboard) {
	t.Helper()
	c := new(counted)
	_, api := taskenginev1connect.NewTaskServiceHandler(c)
	for i := range tokens {
		tokens[i].Hash = access.HashOf(tokens[i].Name)
	}
	all, err := access.NewTokens(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return c, newDashboard(Config{Base: "/ui/", Tokens: func() *access.Tokens { return all }, API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), authorizationKey{}, r.Header.Get("Authorization"))))
	})})
}

// get returns a page for the holder of a token.
func (d *dashboard) get(t *testing.T, path, token string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/"+path, nil)
	r.AddCookie(&http.Cookie{Name: tokenCookie, Value: token})
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.handler().ServeHTTP(w, r)
	return w
}

// keepFresh has the cache keep all that it has.
func (c *cache) keepFresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if one.err == nil {
			one.until = time.Now().Add(time.Hour)
		}
	}
}

func TestOpenPagesOfTheSameRightsShareTheirRefreshes(t *testing.T) {
	c, d := newCounted(t, access.Token{Name: "ann", Roles: []access.Role{access.View}}, access.Token{Name: "bob", Roles: []access.Role{access.View}},
		access.Token{Name: "carl", Roles: []access.Role{access.Manage}}, access.Token{Name: "dora", Roles: []access.Role{access.View}, Types: []string{"mail"}})
	first := d.get(t, "bulk", "ann", live, "2000")
	if text := first.Body.String(); first.Code != 200 || !strings.Contains(text, "job-1") || strings.Contains(text, "<html") || strings.Contains(text, "ann") {
		t.Fatalf("a refresh gives %d %s", first.Code, text)
	}
	d.cache.keepFresh()
	was := d.shownBy(t, "bulk", "ann")
	if second := d.get(t, "bulk", "bob", live, "2000"); second.Body.String() != first.Body.String() || d.shownBy(t, "bulk", "bob") != was {
		t.Errorf("a refresh of another person with the same rights gives %d %s", second.Code, second.Body)
	}
	if again := d.get(t, "bulk", "bob", live, "2000", "If-None-Match", first.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Header().Get(everyHeader) == "" {
		t.Errorf("a page that has not changed gives %d, %v", again.Code, again.Header())
	}
	if whole := d.get(t, "bulk", "bob").Body.String(); !strings.Contains(whole, "<html") || !strings.Contains(whole, ">bob<") {
		t.Errorf("a page that is opened is\n%s", whole)
	}
	if n := c.asks.Load(); n != 1 {
		t.Errorf("the API was asked %d times", n)
	}
	for i, other := range []string{"carl", "dora"} {
		if d.get(t, "bulk", other, live, "2000"); int(c.asks.Load()) != i+2 {
			t.Errorf("with %s the API was asked %d times", other, c.asks.Load())
		}
	}
	d.cache.keepFresh()
	d.cache.forget() // as an order does
	if d.get(t, "bulk", "ann", live, "2000"); c.asks.Load() != 4 {
		t.Errorf("after an order the API was asked %d times", c.asks.Load())
	}
}

// shownBy returns the refresh that a person gets from the cache.
func (d *dashboard) shownBy(t *testing.T, path, token string) *refreshed {
	t.Helper()
	person, err := d.Tokens().Check(access.HashOf(token))
	if err != nil {
		t.Fatal(err)
	}
	d.cache.mu.Lock()
	defer d.cache.mu.Unlock()
	got, ok := d.cache.all[cacheKey{(&view{token: person}).rights(), "page\x00" + path + "\x00/ui/" + path}].value.(*refreshed)
	if !ok {
		t.Fatalf("nothing is kept for %s", token)
	}
	return got
}

func TestAnErrorIsForWhoAskedAlone(t *testing.T) {
	c, d := newCounted(t, access.Token{Name: "ann", Roles: []access.Role{access.View}}, access.Token{Name: "bob", Roles: []access.Role{access.View}})
	c.denies.Store(true)
	for _, name := range []string{"ann", "bob"} {
		if got := d.get(t, "bulk", name, live, "2000"); got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), bearer+name) {
			t.Errorf("%s gets %d %s", name, got.Code, got.Body)
		}
	}
}
