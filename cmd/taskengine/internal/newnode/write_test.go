package newnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
)

// every calls f with every combination of answers.
func every(f func(Answers)) {
	for _, storage := range Storages() {
		for _, several := range []bool{false, true} {
			for _, handler := range Handlers() {
				for _, listen := range []string{"", "127.0.0.1:8000", "0.0.0.0:7420"} {
					for _, tokens := range []bool{false, true} {
						if several && storage != Postgres {
							continue
						}
						a := Answers{Storage: storage, Several: several, Handler: handler, Listen: listen, Tokens: tokens}
						a.Complete()
						f(a)
					}
				}
			}
		}
	}
}

func none(string) (string, bool) { return "", false }

func TestTheConfigurationOfEveryAnswerIsValid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "taskengine.yaml")
	every(func(a Answers) {
		if err := a.check(); err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		text, err := render(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		isOpen := NeedsTokens(a.Listen) && !a.Tokens
		if err := validate(file, a, none); (err != nil) != isOpen || isOpen && !strings.Contains(err.Error(), "can be reached from other machines") {
			t.Fatalf("%+v: %v in\n%s", a, err, text)
		}
		if isOpen {
			return
		}
		cfg, err := config.Load(file, nil, func(string) (string, bool) { return "postgres://db/tasks", true })
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Storage.Driver.String() != a.Storage || cfg.API.Listen != a.Listen || (cfg.API.Tokens != "") != a.Tokens || (len(cfg.Types) == 1) != (a.Handler != NoHandler) {
			t.Errorf("%+v is the configuration\n%s", a, text)
		}
		if a.Storage == Postgres && cfg.Storage.URL.Reveal() != "postgres://db/tasks" || a.Storage != Postgres && filepath.Base(cfg.Storage.Path) != "data" {
			t.Errorf("%+v keeps tasks elsewhere:\n%s", a, text)
		}
	})
}

func TestAnswersThatYAMLWouldReadAsOtherValuesAreTexts(t *testing.T) {
	for i, name := range []string{"no", "null", "true", "on", "e1"} {
		a := Answers{Storage: Bolt, Path: []string{`a, [b]: {c} # "d" 'e'`, "two\nlines"}[i%2], Handler: "sh", Name: name}
		a.Complete()
		file := filepath.Join(t.TempDir(), "n.yaml")
		made, err := Write(file, a, false, none)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(made.File, nil, none)
		if err != nil {
			t.Fatal(err)
		}
		if problems := cfg.Probe(); len(problems) > 0 || filepath.Base(cfg.Storage.Path) != a.Path || cfg.Types[name].Handler != name {
			t.Errorf("%s: %v, %q, %+v", name, problems, cfg.Storage.Path, cfg.Types)
		}
	}
}

func TestNothingIsOverwrittenOrLeftBehind(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "taskengine.yaml")
	sh := Answers{Handler: "sh"}
	sh.Complete()
	for name, c := range map[string]struct {
		change func(a *Answers)
		says   string
	}{
		"a storage that is not":     {func(a *Answers) { a.Storage = "memory" }, "none of pebble, bolt and postgres"},
		"a language that is not":    {func(a *Answers) { a.Handler = "cobol" }, "none of"},
		"a name that is not valid":  {func(a *Answers) { a.Name = "../x" }, "small letters"},
		"a name that is not YAML":   {func(a *Answers) { a.Name = "a\"b" }, "small letters"},
		"a name of no program":      {func(a *Answers) { a.Name = "Mail" }, "small letters"},
		"an address that is not":    {func(a *Answers) { a.Listen = "here" }, "api.listen"},
		"an address without tokens": {func(a *Answers) { a.Listen = ":7420" }, "can be reached from other machines"},
		"a port of another use":     {func(a *Answers) { a.Listen = "127.0.0.1:7421" }, "admin.listen"},
		"a database in files":       {func(a *Answers) { a.URLEnv = "X" }, "has no database"},
		"several nodes in a folder": {func(a *Answers) { a.Several = true }, "choose postgres"},
		"a URL":                     {func(a *Answers) { a.Storage, a.Path, a.URLEnv = Postgres, "", "postgres://u:hunter2@h/d" }, "is no name of an environment variable"},
		"the name of no handler":    {func(a *Answers) { a.Handler = NoHandler }, "no handler"},
		"a folder of a database":    {func(a *Answers) { a.Storage, a.URLEnv = Postgres, "X" }, "leave out the path"},
	} {
		a := sh
		c.change(&a)
		if _, err := Write(file, a, false, none); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	isThere := func(names ...string) {
		t.Helper()
		entries, err := os.ReadDir(folder)
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if err != nil || strings.Join(got, " ") != strings.Join(names, " ") {
			t.Fatalf("the folder has %q, %v, want %q", got, err, names)
		}
	}
	isThere()
	if _, err := Write(file, sh, false, none); err != nil {
		t.Fatal(err)
	}
	isThere("hello", "taskengine.yaml")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := Answers{}
	plain.Complete()
	if _, err := Write(file, plain, false, none); exit.Code(err) != exit.Failure || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a file that is there: %v", err)
	}
	if _, err := Write(file, sh, true, none); exit.Code(err) != exit.Failure {
		t.Errorf("a folder that is there: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("it has become %q, %v", text, err)
	}
	if _, err := Write(file, plain, true, none); err != nil {
		t.Error(err)
	}
	isThere("hello", "taskengine.yaml")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "driver: pebble") {
		t.Errorf("it has become %q, %v", text, err)
	}
	// A file that appears after the first look is not replaced, either.
	written, err := writeBeside(file, "late")
	if err != nil {
		t.Fatal(err)
	}
	if err := place(written, file, false); exit.Code(err) != exit.Failure {
		t.Errorf("over a file that is there: %v", err)
	}
	if err := removed(written); err != nil {
		t.Error(err)
	}
}
