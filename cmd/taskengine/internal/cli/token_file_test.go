package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATokenOfAFileOrTheEnvironmentIsTrimmedAndNeverShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"te_1\n": "te_1", " te_1\r\n": "te_1", "": "", " \n": "", "te_secr\net": "", "te_secr\u00e9t": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := &app{tokenFile: file, env: func(string) (string, bool) { return "", false }}
		if got, err := a.token(); got != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), "secr") {
			t.Errorf("a file with %q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"te_1\n": "te_1", "": "", "te_secr\net": ""} {
		a := &app{env: func(string) (string, bool) { return text, true }}
		if got, err := a.token(); got != want || (err == nil) != !strings.Contains(text, "secr") || err != nil && strings.Contains(err.Error(), "secr") {
			t.Errorf("a variable with %q: %q, %v", text, got, err)
		}
	}
}
