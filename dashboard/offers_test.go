package dashboard_test

import (
	"html"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/internal/access"
)

// order matches the beginning of a form that changes something.
var order = regexp.MustCompile(`<form method="post" action="/ui/[^l][^"]*"`) // no log-out

// Every page shows the command that does the same. Only persons with the right to give orders are offered any; the API refuses the orders of others.
func TestEveryPageShowsItsCommandAndOffersWhatThePersonMay(t *testing.T) {
	n := newNode(t, of("view", access.View), of("admin", access.Admin))
	pages := dashboard.New(dashboard.Config{Base: "/ui/", API: stuffed{}, Node: "n1", Tokens: n.tokens.Load})
	offers := 0
	for _, path := range allPages {
		if path == "login" || strings.Contains(path, "/lines") {
			continue
		}
		page := func(as string) string {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "http://node/ui/"+path, nil)
			r.Header.Set("Cookie", "taskengine-token="+as)
			pages.ServeHTTP(w, r)
			return w.Body.String()
		}
		has(t, page("view"), `<code id="command">taskengine `)
		if got := order.FindAllString(page("view"), -1); got != nil {
			t.Errorf("%s offers %q to a person who may only look", path, got)
		}
		offers += len(order.FindAllString(page("admin"), -1))
	}
	if offers < 10 {
		t.Errorf("an administrator is offered %d orders", offers)
	}
	view, form := n.visit(t, "view"), url.Values{"q": {"state=error"}, "verb": {"resume"}, "to": {"2026-01-02T03:04:05Z"}, "for": {"1h"}, "rule": {"x"}, "id": {"x"}}
	for _, path := range dashboard.ActionPaths() {
		if path == "task/{id}/edit" { // it reads the task first, see TestEachRoleSeesAndDoesWhatItMay
			continue
		}
		if code, body, _ := view.post(t, regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "x"), form); code != 403 {
			t.Errorf("%s by a person who may only look gives %d: %.2000s", path, code, body)
		}
	}
}

// The names of schedules and platforms may have characters that end or divide the path of an address.
func TestLinksLeadToThingsWithOddNames(t *testing.T) {
	const name = "eu/a?b#c%2Fd&e"
	n := newNode(t)
	n.call(t, "ApplySchedule", `{"name": "`+name+`", "definition": {"cron": "30 2 * * *", "task": {"type": "echo"}}}`)
	v := n.visit(t, "")
	_, list, _ := v.get(t, "schedules")
	link := regexp.MustCompile(`href="/ui/(schedule/[^"]*)"`).FindStringSubmatch(list)
	if link == nil {
		t.Fatalf("there is no link in %s", list)
	}
	code, page, _ := v.get(t, html.UnescapeString(link[1]))
	form := regexp.MustCompile(`action="/ui/(schedule/[^"]*/pause)"`).FindStringSubmatch(page)
	if code != 200 || form == nil {
		t.Fatalf("the page at %s gives %d: %s", link[1], code, page)
	}
	code, body, header := v.post(t, html.UnescapeString(form[1]), nil)
	if code != 303 {
		t.Fatalf("pausing gives %d: %s", code, body)
	}
	if code, page, _ = v.get(t, strings.TrimPrefix(header.Get("Location"), "/ui/")); code != 200 || !strings.Contains(page, "paused") {
		t.Errorf("the page after that gives %d: %s", code, page)
	}
	w := httptest.NewRecorder()
	dashboard.New(dashboard.Config{Base: "/ui/", API: stuffed{}, Node: "n1"}).ServeHTTP(w, httptest.NewRequest("GET", "http://node/ui/slices/x", nil))
	for _, action := range regexp.MustCompile(`(?:href|action)="/ui/slices/([^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
		if strings.Count(action[1], "/") > 1 {
			t.Errorf("a link or a form leads to %s", action[1])
		}
	}
}
