//go:build unix

package incidents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/readmetest"
)

func TestTheCommandsOfTheReadmePrintWhatItShows(t *testing.T) {
	// Retries are sooner than in the file, so that the test does not wait for them.
	const backoff = "types.incident.retry.backoff.exponential."
	if done := readmetest.Run(t, "--set", backoff+"initial=1s", "--set", backoff+"max=2s"); done < 20 {
		t.Errorf("README.md has only %d commands", done)
	}
}

func TestTheScriptPagesOnceAndRefusesWhatNamesNoService(t *testing.T) {
	script, err := filepath.Abs("page.sh")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	page := func(payload string) (code int) {
		cmd := exec.CommandContext(t.Context(), "sh", script)
		cmd.Dir, cmd.Stdin, cmd.Env = folder, strings.NewReader(payload), []string{"PATH=" + os.Getenv("PATH"), "TASKENGINE_TASK_ID=17"}
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode()
	}
	for range 2 {
		if code := page(`{"service":"web","text":"hello"}`); code != 0 {
			t.Errorf("it ends with %d", code)
		}
	}
	if got, err := os.ReadFile(filepath.Join(folder, "services/web/pages")); err != nil || string(got) != "17 hello\n" {
		t.Errorf("the pages are %q, %v", got, err)
	}
	for _, payload := range []string{"", "no JSON", `{"text": "hello"}`, `{"service": "../web"}`, `{"service": ""}`, `{"service": "."}`, "{\"service\": \"\x00\"}"} {
		if code := page(payload); code != 65 {
			t.Errorf("with %q it ends with %d", payload, code)
		}
	}
	if got, err := os.ReadDir(filepath.Join(folder, "services")); err != nil || fmt.Sprint(got) != "[d web/]" {
		t.Errorf("the services are %v, %v", got, err)
	}
}
