package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestOnlyLargeResponsesAreCompressed(t *testing.T) {
	n := newNode(t)
	encoding := func(method, body string) string {
		t.Helper()
		url := "http://" + n.api.Addr().String() + "/taskengine.v1.TaskService/" + method
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept-Encoding", "gzip") // set by the caller, the client leaves the body as it is
		res, err := httpClient(t, false).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err)
		}
		return res.Header.Get("Content-Encoding")
	}
	if got := encoding("Submit", `{"tasks":[{"type":"idle"}]}`); got != "" {
		t.Errorf("a receipt has the encoding %q", got)
	}
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle", Input: &taskenginev1.NewTask_Text{Text: strings.Repeat("x", 8<<10)}})
	if got := encoding("Get", `{"id":"`+id+`"}`); got != "gzip" {
		t.Errorf("a task of eight kilobytes has the encoding %q", got)
	}
}
