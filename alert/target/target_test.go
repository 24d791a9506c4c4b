package target_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/target"
)

func TestAWebhookPostsTheJSON(t *testing.T) {
	var got alert.Notification
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Method != "POST" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	hook := target.NewWebhook(server.URL, map[string]string{"Authorization": "Bearer secret"}, 30*time.Second)
	if err := hook.Send(t.Context(), evil()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(evil(), got); diff != "" {
		t.Error(diff)
	}
	if header.Get("Authorization") != "Bearer secret" || header.Get("Content-Type") != "application/json" || header.Get("Idempotency-Key") != evil().ID {
		t.Errorf("the headers are %v", header)
	}
}

func TestAWebhookThatDoesNotAcceptIsAnErrorWithoutTheURL(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/secret/redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "/secret/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, "come\x1b back later\n")
		case "/secret/hangs":
			<-stop
		}
	}))
	defer server.Close()
	defer close(stop)
	for path, want := range map[string]string{
		"/secret/redirect": "answered 302", "/secret/busy": `answered 503: come\x1b back later`, "/secret/hangs": "did not answer within",
	} {
		timeout := 2 * time.Minute
		if strings.Contains(want, "within") {
			timeout = 50 * time.Millisecond
		}
		err := target.NewWebhook(server.URL+path, nil, timeout).Send(t.Context(), evil())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", path, err)
		}
	}
	err := target.NewWebhook("http://127.0.0.1:1/secret", nil, 2*time.Minute).Send(t.Context(), evil())
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no server: %v", err)
	}
}

func TestACommandGetsTheJSONAndVariables(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	run := target.NewExec(target.ExecConfig{
		Command: []string{"sh", "-c", `cat >"$OUT"; echo "$TASKENGINE_ALERT_ID $TASKENGINE_ALERT_RULE $TASKENGINE_ALERT_STATUS ${TASKENGINE_ALERT_SUMMARY%% *} $HOME" >>"$OUT"`},
		Env:     map[string]string{"OUT": out}, PassEnv: []string{"PATH"}, Timeout: 2 * time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	if err := run.Send(t.Context(), evil()); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var got alert.Notification
	d := json.NewDecoder(bytes.NewReader(written))
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(evil(), got); diff != "" {
		t.Error(diff)
	}
	rest, _ := io.ReadAll(d.Buffered())
	if string(rest) != evil().ID+" errors firing 2 \n" {
		t.Errorf("the variables are %q", rest)
	}
}

func TestACommandThatFailsOrHangsIsAnError(t *testing.T) {
	for command, want := range map[string]string{
		"echo broken >&2; exit 3": "exit status 3: broken",
		"sleep 1000":              "did not end within",
	} {
		timeout := 2 * time.Minute
		if strings.Contains(want, "within") {
			timeout = 50 * time.Millisecond
		}
		err := target.NewExec(target.ExecConfig{
			Command: []string{"sh", "-c", command}, PassEnv: []string{"PATH"}, Timeout: timeout, Grace: time.Second, Log: slog.New(slog.DiscardHandler),
		}).Send(t.Context(), evil())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestTheLogHasALineForEachAlert(t *testing.T) {
	var out bytes.Buffer
	n := evil()
	n.Alerts = append(n.Alerts, alert.Item{Status: alert.Resolved, Labels: map[string]string{"type": "pay"}, Summary: "resolved: 1 task of type pay is in error"})
	n.More = 7
	if err := (target.Log{To: slog.New(slog.NewTextHandler(&out, nil))}).Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "level=WARN msg=alert rule=errors") || !strings.Contains(lines[1], `level=INFO msg="alert resolved"`) || !strings.Contains(lines[2], "more=7") {
		t.Errorf("the log is %s", out.String())
	}
}
