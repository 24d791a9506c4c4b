package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program is the name of the program.
const program = "taskengine"

// module is the module of the program.
const module = "github.com/taskengine/taskengine"

// platform is a system and an architecture for which Go compiles.
type platform struct{ system, architecture string }

func (p platform) String() string { return p.system + "/" + p.architecture }

// builtIn is the file of the program for a platform, below the folder of its source.
func (p platform) builtIn(source string) string {
	return filepath.Join(source, "bin", p.system+"-"+p.architecture)
}

func parsePlatforms(text string) (all []platform, err error) {
	for part := range strings.SplitSeq(text, ",") {
		system, architecture, ok := strings.Cut(part, "/")
		if !ok || system == "" || architecture == "" {
			return nil, fmt.Errorf("the platform %q is not SYSTEM/ARCHITECTURE, such as linux/arm64", part)
		}
		all = append(all, platform{system, architecture})
	}
	return all, nil
}

// buildArguments compile the program without the path of the folder (-trimpath), and with the version, the commit and its
// date, which Go takes from the repository (-buildvcs).
func buildArguments(output string) []string {
	return []string{"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", output, "./cmd/" + program}
}

// settings are those of a user that do not change the program: where modules come from, and where results are kept.
var settings = []string{"GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOMODCACHE", "GOCACHE", "GOTOOLCHAIN"}

// buildEnvironment is the environment of the compiler: that of this process, without the settings of a user that change
// the program, also without those in the file of `go env -w`.
func buildEnvironment(env []string, cache string, p platform) ([]string, error) {
	cmd := exec.Command("go", append([]string{"env"}, settings...)...)
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("read the settings of Go: %w", err)
	}
	env = slices.Clip(env)
	for i, value := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		env = append(env, settings[i]+"="+value)
	}
	env = append(env,
		"GOENV=off", "GOOS="+p.system, "GOARCH="+p.architecture, "GOAMD64=v1", "GOARM64=v8.0",
		"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
	)
	if cache != "" {
		env = append(env, "GOCACHE="+cache)
	}
	return env, nil
}

// build compiles the program in a clone of the repository, unless it is there already.
func build(source, output, cache string, p platform) error {
	if _, err := os.Stat(output); err == nil {
		return nil
	}
	env, err := buildEnvironment(os.Environ(), cache, p)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", buildArguments(output)...)
	cmd.Dir, cmd.Env = source, env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile: %w\n%s", err, out)
	}
	return nil
}

// checkBuild checks that the program in a file says the version and the commit.
func (r *repository) checkBuild(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	if info.Main.Version != r.version {
		return fmt.Errorf("the program says that it is %q, not %q", info.Main.Version, r.version)
	}
	said := make(map[string]string)
	for _, s := range info.Settings {
		said[s.Key] = s.Value
	}
	if said["vcs.revision"] != r.commit || said["vcs.modified"] != "false" {
		return fmt.Errorf("the program says that it is of the commit %q (modified: %s), not %q", said["vcs.revision"], said["vcs.modified"], r.commit)
	}
	return nil
}
