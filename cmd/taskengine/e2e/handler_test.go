//go:build !race

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// project is a scaffold in a language.
type project struct {
	lang    string
	prepare func(*project, *testing.T) // makes it find the SDK of this tree
	test    []string                   // the command of its own tests
	env     []string                   // of that, and of the program
	program []string                   // as its configuration has it
	runs    bool                       // its configuration as it is finds all that it needs
	folder  string
}

// scaffold has the program write a project named mailer in a language, and returns its folder.
func scaffold(t *testing.T, lang, dir string) string {
	t.Helper()
	if r := cli(t, nil, "", "handler", "new", "--lang", lang, "mailer", "--dir", dir); r.code != exitOK {
		t.Fatalf("it ended with %d: %s", r.code, r.stderr)
	}
	return filepath.Join(dir, "mailer")
}

// repository is the folder of this tree.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestEachScaffoldIsAHandlerProgram(t *testing.T) {
	t.Parallel()
	python := cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")
	for _, p := range []*project{
		{lang: "go", prepare: (*project).useGo, test: []string{"go", "test", "."}, program: []string{"./mailer"}, runs: true},
		{
			lang: "python", test: []string{python, "-m", "unittest"}, program: []string{python, "main.py"},
			env: []string{"PYTHONDONTWRITEBYTECODE=1"},
		},
		{lang: "node", prepare: (*project).useNode, test: []string{"npm", "test"}, program: []string{"node", "main.mjs"}, runs: true},
		{lang: "java", prepare: (*project).useJava, program: []string{"java", "@run.args"}},
		{lang: "sh", prepare: (*project).useTool, test: []string{"./test.sh"}, program: []string{"./main.sh"}, runs: true},
	} {
		t.Run(p.lang, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p.folder = scaffold(t, p.lang, dir)
			if r := cli(t, nil, "", "config", "check", "--probe=false", "-c", filepath.Join(p.folder, "taskengine.yaml")); r.code != 0 {
				t.Errorf("its configuration is not valid: %s", r.stderr)
			}
			if p.prepare != nil {
				p.prepare(p, t)
			}
			if p.test != nil {
				p.run(t, p.test...)
			}
			p.verify(t)
			if p.runs {
				n := start(t, withPath(), "dev", "-c", filepath.Join(p.folder, "taskengine.yaml"))
				got := n.objects(t, "task", "add", "mailer", "--data", `{"name": "Ada"}`, "--wait")[0]
				if fmt.Sprint(got["result"]) != "map[greeting:Hello, Ada!]" {
					t.Errorf("a node that runs it gives %v", got)
				}
			}
		})
	}
}

func TestAShellHandlerAnswersWhileItsTaskRuns(t *testing.T) {
	t.Parallel()
	folder := scaffold(t, "sh", t.TempDir())
	p := &project{folder: folder}
	main := p.read(t, filepath.Join(folder, "main.sh"))
	slow := strings.Replace(main, "greet() {\n", "greet() {\n\tsleep 6\n", 1)
	p.write(t, "main.sh", slow)
	p.write(t, "taskengine.yaml", p.read(t, filepath.Join(folder, "taskengine.yaml"))+"    retry: {max: 1}\n    max_crashes: 1\n")
	n := start(t, withPath(), "dev", "-c", filepath.Join(folder, "taskengine.yaml"), "--set", "handlers.mailer.liveness=2s")
	got := n.objects(t, "task", "add", "mailer", "--data", `{"name": "Ada"}`, "--wait")[0]
	if slow == main || fmt.Sprint(got["result"]) != "map[greeting:Hello, Ada!]" {
		t.Errorf("a task of 6 s, with a liveness of 2 s, became %v", got)
	}
}

// run runs a command in the project's folder.
func (p *project) run(t *testing.T, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = p.folder, append(os.Environ(), p.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
}

// verify examines the project's program.
func (p *project) verify(t *testing.T) {
	t.Helper()
	args := []string{"handler", "verify", "--type", "mailer", "--payload", `{"name": "Ada"}`, "--patience", limit.String()}
	for _, v := range p.env {
		args = append(args, "--env", v)
	}
	cmd := program(t.Context(), t, withPath(), append(append(args, "--"), p.program...)...)
	cmd.Dir = p.folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the program does not pass: %v\n%s", err, out)
	}
}

func (p *project) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *project) read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// goFlags returns the flags of this test's own build, so that go finds all modules compiled. They leave out vet, which reads all
// modules.
func goFlags() string { return "GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -vet=off") }

// useGo builds the program with the sources that came with it, and needs no network for that: this test was built with the same modules.
func (p *project) useGo(t *testing.T) {
	p.env = []string{"GOPROXY=off", "GOWORK=off", goFlags()}
	p.run(t, "/bin/sh", "-c", p.documented(t))
}

// documented returns the first command of the project's README.
func (p *project) documented(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(p.read(t, filepath.Join(p.folder, "README.md")), "```sh\n")
	command, _, found := strings.Cut(after, " #")
	if !found {
		t.Fatalf("the README of the scaffold for %s has no command", p.lang)
	}
	return command
}

// useNode has the package find the one of this tree.
func (p *project) useNode(t *testing.T) {
	sdk := filepath.Join(repository(t), "plugins/sdk/node")
	notWithout(t, filepath.Join(sdk, "dist/index.js"))
	modules := filepath.Join(p.folder, "node_modules")
	if err := os.Mkdir(modules, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sdk, filepath.Join(modules, "taskengine-handler")); err != nil {
		t.Fatal(err)
	}
}

// useJava compiles the program, and its test, with the libraries of the tests of the SDK of this tree.
func (p *project) useJava(t *testing.T) {
	built := filepath.Join(repository(t), "plugins/sdk/java/target/conformance.args")
	notWithout(t, built)
	classes, _, ok := strings.Cut(strings.TrimPrefix(p.read(t, built), `--class-path "`), `"`)
	if !ok {
		t.Fatalf("%s does not begin with a class path", built)
	}
	p.write(t, "run.args", fmt.Sprintf("--class-path \"target:%s\"\n-XX:+DisplayVMOutputToStderr\n-XX:TieredStopAtLevel=1\n-XX:+UseSerialGC\napp.Main\n", classes))
	p.run(t, "javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-d", "target", "--class-path", classes, "src/main/java/app/Main.java", "src/test/java/app/MainTest.java")
}

// useTool has the project's test find this program.
func (p *project) useTool(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "taskengine")); err != nil {
		t.Fatal(err)
	}
	p.run(t, "env", "PATH="+bin+":"+os.Getenv("PATH"), role+"=taskengine", "./test.sh")
	p.test = nil
}

// notWithout skips the test if an SDK is not built. scripts/test builds them, and says
// which parts were not exercised.
func notWithout(t testing.TB, file string) {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		t.Skipf("the SDK is not built: %v", err)
	}
}

// The first command of each README, as a user runs it: it fetches the dependencies of the project.
func TestTheFirstCommandOfEachScaffoldWorks(t *testing.T) {
	t.Parallel()
	if os.Getenv("SCAFFOLDS") == "" {
		t.Skip("only make test and make test-scaffolds fetch the dependencies of the projects")
	}
	for _, lang := range []string{"go", "python", "node", "java"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			folder := scaffold(t, lang, t.TempDir())
			p := &project{lang: lang, folder: folder, env: []string{goFlags()}}
			_, after, _ := strings.Cut(p.read(t, filepath.Join(folder, "README.md")), "```sh\n")
			before, _, found := strings.Cut(after, "taskengine dev")
			if !found {
				t.Fatal("its README does not say how to run it")
			}
			p.run(t, "/bin/sh", "-e", "-c", before)
		})
	}
}
