package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/certtest"
)

func TestProbeReadsTheCertificatesOfListeners(t *testing.T) {
	a := certtest.New(t)
	good, other, expired := a.Issue(t, "good"), a.Issue(t, "other"), a.IssueExpired(t, "expired")
	for tls, want := range map[string]string{
		fmt.Sprintf("cert: %s, key: %s, client_ca: %s", good.File, good.KeyFile, a.File):       "",
		fmt.Sprintf("cert: gone.pem, key: %s", good.KeyFile):                                   ":1:20: SECTION.tls.cert: open FOLDER/gone.pem: no such file or directory; correct the path or the rights of the file",
		fmt.Sprintf("cert: %s, key: %s", good.File, other.KeyFile):                             "SECTION.tls.cert: tls: private key does not match public key; correct cert and key",
		fmt.Sprintf("cert: %s, key: %s", expired.File, expired.KeyFile):                        "SECTION.tls.cert: the certificate has expired at ",
		fmt.Sprintf("cert: %s, key: %s, client_ca: %[2]s", good.File, good.KeyFile):            "SECTION.tls.client_ca: " + good.KeyFile + " has no certificate in PEM",
		fmt.Sprintf("client_ca: %s, cert: %s, key: nowhere.key", a.File, filepath.Dir(a.File)): "SECTION.tls.key: open FOLDER/nowhere.key",
	} {
		for _, section := range []string{"api", "admin"} {
			file := write(t, section+": {tls: {"+tls+"}}")
			c, err := Load(file, nil, testEnv)
			if err != nil {
				t.Fatal(err)
			}
			said := (&Errors{c.Probe()}).Error()
			expected := strings.NewReplacer("SECTION", section, "FOLDER", filepath.Dir(file), ":1:20:", fmt.Sprintf(":1:%d:", 16+len(section))).Replace(want)
			if want == "" && said != "" || !strings.Contains(said, expected) {
				t.Errorf("%s: it says %q, want %q", tls, said, expected)
			}
		}
	}
}

func TestProbeReadsTheTokens(t *testing.T) {
	file := write(t, "api: {tokens: tokens.json}")
	c, err := Load(file, nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	said := func() string { return (&Errors{c.Probe()}).Error() }
	if got := said(); !strings.Contains(got, "taskengine.yaml:1:15: api.tokens: open ") || !strings.Contains(got, "taskengine token create") {
		t.Errorf("without the file it says %q", got)
	}
	tokens := filepath.Join(filepath.Dir(file), "tokens.json")
	for text, want := range map[string]string{`{"tokens": []}`: "", `{"tokens": [{"name": "a"}]}`: "token 1 of 1 has no role"} {
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := said(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("of %s it says %q", text, got)
		}
	}
}
