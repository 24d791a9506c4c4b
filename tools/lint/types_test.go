package main

import (
	"maps"
	"strings"
	"testing"
)

// good is a module that builds on each platform.
var good = map[string]string{
	"go.mod":           "module example.com/m\n\ngo 1.26.0\n",
	"m.go":             "package m\n\nimport \"example.com/m/low\"\n\nfunc Name() string { return low.Name() }\n",
	"m_test.go":        "package m\n\nimport \"testing\"\n\nfunc Hidden() string { return Name() }\n\nfunc TestName(t *testing.T) { t.Log(Hidden()) }\n",
	"x_test.go":        "package m_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m\"\n)\n\nfunc TestHidden(t *testing.T) { t.Log(m.Hidden()) }\n",
	"low/low.go":       "package low\n\nfunc Name() string { return name() }\n",
	"low/low_linux.go": "package low\n\nimport \"syscall\"\n\nfunc name() string {\n\tconst _ = syscall.EPOLLIN\n\treturn \"linux\"\n}\n",
	"low/other.go":     "//go:build !linux\n\npackage low\n\nfunc name() string { return \"other\" }\n",
}

// with returns the good module with more files.
func with(more map[string]string) map[string]string {
	files := maps.Clone(good)
	maps.Copy(files, more)
	return files
}

func TestPackagesThatBuildOnLinuxOnlyHaveErrorsOnMacOS(t *testing.T) {
	dir := module(t, with(map[string]string{
		"symbol/symbol.go":       "package symbol\n\nfunc Name() string { return name() }\n",
		"symbol/symbol_linux.go": "package symbol\n\nfunc name() string { return \"linux\" }\n",

		"library/library.go": "package library\n\nimport \"syscall\"\n\nvar Free = syscall.Sysinfo\n",

		"kind/kind.go":       "package kind\n\nfunc Name() string { return name() }\n",
		"kind/kind_linux.go": "package kind\n\nfunc name() string { return \"linux\" }\n",
		"kind/other.go":      "//go:build !linux\n\npackage kind\n\nfunc name() int { return 1 }\n",

		"unused/unused_linux.go": "package unused\n\nfunc name() {}\n",
		"unused/other.go":        "//go:build !linux\n\npackage unused\n\nfunc name() {\n\tx := 1\n}\n",

		"syntax/syntax_linux.go": "package syntax\n",
		"syntax/other.go":        "//go:build !linux\n\npackage syntax\n\nfunc name() string {\n",

		"inside/inside.go":      "package inside\n",
		"inside/inside_test.go": "package inside\n\nimport \"syscall\"\n\nvar free = syscall.Sysinfo\n",

		"outside/outside.go":            "package outside\n",
		"outside/outside_linux_test.go": "package outside\n\nfunc Hidden() {}\n",
		"outside/x_test.go":             "package outside_test\n\nimport \"example.com/m/outside\"\n\nvar _ = outside.Hidden\n",

		"cmd/main.go": "package main\n\nimport \"syscall\"\n\nfunc main() { syscall.Sysinfo(nil) }\n",
	}))
	if err := checkTypes(dir, "linux/amd64"); err != nil {
		t.Errorf("on Linux: %v", err)
	}
	err := checkTypes(dir, "darwin/arm64")
	if err == nil {
		t.Fatal("on macOS it has no error")
	}
	for _, want := range []string{
		"symbol/symbol.go:3:29: undefined: name\n",
		"library/library.go:5:20: undefined: syscall.Sysinfo\n",
		"kind/kind.go:3:29: cannot use name()",
		"unused/other.go:6:2: declared and not used: x\n",
		"syntax/other.go:5:22: expected '}'",
		"inside/inside_test.go:5:20: undefined: syscall.Sysinfo\n",
		"outside/x_test.go:5:17: undefined: outside.Hidden\n",
		"cmd/main.go:5:23: undefined: syscall.Sysinfo\n",
	} {
		if n := strings.Count(err.Error()+"\n", "/"+want); n != 1 {
			t.Errorf("the error has %q %d times", want, n)
		}
	}
	if strings.Contains(err.Error(), "low/") || strings.Contains(err.Error(), "m.go") {
		t.Error("packages that build have errors")
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestAPackageThatIsNotThereOnMacOSIsAnError(t *testing.T) {
	for want, more := range map[string]map[string]string{
		"build constraints exclude all Go files": {"none/none.go": "//go:build linux\n\npackage none\n", "user/user.go": "package user\n\nimport _ \"example.com/m/none\"\n"},
		"no matching files found":                {"embedded/other.go": "//go:build !linux\n\npackage embedded\n\nimport _ \"embed\"\n\n//go:embed missing.txt\nvar text string\n", "embedded/linux.go": "package embedded\n"},
		"is not in std":                          {"user/user_darwin.go": "package user\n\nimport _ \"missing\"\n", "user/user.go": "package user\n"},
	} {
		dir := module(t, with(more))
		if _, err := load(dir, "GOOS=linux", "GOARCH=amd64"); err != nil {
			t.Errorf("on Linux: %v", err)
		}
		if _, err := load(dir, "GOOS=darwin", "GOARCH=arm64"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, and should contain %q", err, want)
		}
	}
}

func TestAPlatformIsASystemAndAnArchitecture(t *testing.T) {
	dir := module(t, good)
	for _, platform := range []string{"", "darwin", "darwin/none", "none/arm64"} {
		if err := checkTypes(dir, platform); err == nil {
			t.Errorf("%q is taken for a platform", platform)
		}
	}
}

func TestTestsForTheRaceDetectorAreChecked(t *testing.T) {
	dir := module(t, with(map[string]string{
		"low/helper_test.go": "//go:build !race\n\npackage low\n\nfunc help() {}\n",
		"low/low_test.go":    "package low\n\nimport \"testing\"\n\nfunc TestName(*testing.T) { help() }\n",
	}))
	if err := checkTypes(dir, "linux/amd64"); err != nil {
		t.Errorf("without the race detector: %v", err)
	}
	if err := checkTypes(dir, "linux/amd64/race"); err == nil || !strings.Contains(err.Error(), "undefined: help") {
		t.Errorf("with the race detector: %v", err)
	}
}
