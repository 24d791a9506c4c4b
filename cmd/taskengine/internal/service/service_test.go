package service

import (
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machine is a machine in an empty folder that notes the commands.
func machine(t *testing.T, system string) (m *Machine, ran *[]string) {
	t.Helper()
	ran = new([]string)
	return &Machine{
		System: system, Root: t.TempDir(), Program: "/usr/local/bin/taskengine", MayWrite: true, User: "anna",
		Run: func(name string, args ...string) (string, error) {
			*ran = append(*ran, name+" "+strings.Join(args, " "))
			return "disabled\n", errors.New("exit status 1")
		},
	}, ran
}

// take takes steps and returns them as text. Failures of commands do not matter.
func take(t *testing.T, steps []Step, err error) (all []string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if err := s.Do(); err != nil && s.Action != Run {
			t.Error(err)
		}
		all = append(all, string(s.Action)+" "+s.What)
	}
	return all
}

// commands returns the commands of steps.
func commands(steps []Step) (all []string) {
	for _, s := range steps {
		if s.Action == Run {
			all = append(all, s.What)
		}
	}
	return all
}

func read(t *testing.T, m *Machine, name string) string {
	t.Helper()
	text, err := os.ReadFile(m.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAServiceOfSystemdIsInstalledAndRemoved(t *testing.T) {
	m, ran := machine(t, "linux")
	if _, err := m.Status(); !errors.Is(err, ErrNone) {
		t.Errorf("before it is installed: %v", err)
	}
	steps, err := m.Install(false)
	want := []string{
		"write " + unitPath, "write " + sysusersPath, "write " + linuxConfig,
		"run systemd-sysusers --root=" + m.Root + " taskengine.conf",
		"run systemctl --root=" + m.Root + " enable taskengine.service",
	}
	if diff := cmp.Diff(want, take(t, steps, err)); diff != "" {
		t.Errorf("the steps (-want +got): %s", diff)
	}
	if len(*ran) != 2 {
		t.Errorf("it ran %q", *ran)
	}
	if text := read(t, m, unitPath); !strings.Contains(text, "ExecStart=/usr/local/bin/taskengine run -c "+linuxConfig+"\n") || strings.Contains(text, packaged+" ") {
		t.Errorf("the unit is\n%s", text)
	}
	s, err := m.Status()
	if want := (&Status{Unit: unitPath, Current: true, Config: linuxConfig, Enabled: "disabled", Active: "unknown"}); err != nil || *s != *want {
		t.Errorf("the status is %+v, %v", s, err)
	}
	if err := os.WriteFile(m.path(linuxConfig), []byte("node: {name: mine}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.Program = "/opt/taskengine"
	if s, err := m.Status(); err != nil || s.Current {
		t.Errorf("the unit of another program: %+v, %v", s, err)
	}
	if steps, err := m.Install(false); !slices.Contains(take(t, steps, err), "keep "+linuxConfig) {
		t.Error("the second time it does not keep the configuration")
	}
	steps, err = m.Uninstall(false)
	if diff := cmp.Diff([]string{"run systemctl --root=" + m.Root + " disable taskengine.service", "remove " + unitPath, "remove " + sysusersPath}, take(t, steps, err)); diff != "" {
		t.Errorf("the steps (-want +got): %s", diff)
	}
	if m.has(unitPath) || read(t, m, linuxConfig) != "node: {name: mine}\n" {
		t.Error("it does not remove the unit alone")
	}
	if _, err := m.Uninstall(false); !errors.Is(err, ErrNone) {
		t.Errorf("the second time: %v", err)
	}
}

func TestAServiceOfThisMachineIsMadeKnownToSystemd(t *testing.T) {
	m := &Machine{System: "linux", Program: "/usr/local/bin/taskengine"}
	steps, err := systemd{m}.install()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"systemd-sysusers taskengine.conf", "systemctl daemon-reload", "systemctl enable taskengine.service"}, commands(steps)); diff != "" {
		t.Errorf("install (-want +got): %s", diff)
	}
	if diff := cmp.Diff([]string{"systemctl disable --now taskengine.service", "systemctl daemon-reload"}, commands(systemd{m}.uninstall())); diff != "" {
		t.Errorf("uninstall (-want +got): %s", diff)
	}
}

func TestAServiceThatCannotBeInstalledIsRefusedWithAdvice(t *testing.T) {
	write := func(m *Machine, name string) {
		if err := m.write(name, "").Do(); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		prepare func(*Machine)
		want    string
	}{
		"another system":  {func(m *Machine) { m.System = "freebsd" }, "this is freebsd"},
		"a package":       {func(m *Machine) { write(m, "/usr/lib/systemd/system/taskengine.service") }, "enable --now"},
		"a home":          {func(m *Machine) { m.Program = "/home/anna/taskengine" }, "install taskengine /usr/local/bin/"},
		"a space":         {func(m *Machine) { m.Program = "/opt/task engine" }, "install taskengine /usr/local/bin/"},
		"no user":         {func(m *Machine) { m.System, m.User = "darwin", "" }, "sudo taskengine service install"},
		"an invalid user": {func(m *Machine) { m.System, m.User = "darwin", "<" }, "sudo taskengine service install"},
	} {
		m, _ := machine(t, "linux")
		c.prepare(m)
		if _, err := m.Install(true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	here, _ := machine(t, "linux")
	if err := (systemd{here}).ready(); err == nil || !strings.Contains(err.Error(), "systemd does not run") {
		t.Errorf("without systemd: %v", err)
	}
	write(here, systemdRunning)
	if err := (systemd{here}).ready(); err != nil {
		t.Error(err)
	}
	nobody := &Machine{System: "darwin", Program: "/usr/local/bin/taskengine", User: "anna"}
	if err := nobody.check(launchd{nobody}, false); err == nil || !strings.Contains(err.Error(), "sudo") {
		t.Errorf("without rights: %v", err)
	}
	if err := nobody.check(launchd{nobody}, true); err != nil {
		t.Errorf("a dry run without rights: %v", err)
	}
}

func TestThePackageRemovesItsOwnService(t *testing.T) {
	m, _ := machine(t, "linux")
	if err := m.write("/lib/systemd/system/taskengine.service", content(unitName)).Do(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Uninstall(false); err == nil || !strings.Contains(err.Error(), "apt remove taskengine") {
		t.Errorf("it is removed: %v", err)
	}
	if s, err := m.Status(); err != nil || !s.Package || !s.Current {
		t.Errorf("the status is %+v, %v", s, err)
	}
}

func TestAServiceOfLaunchdHasItsProgramAndUser(t *testing.T) {
	m, _ := machine(t, "darwin")
	steps, err := m.Install(false)
	if diff := cmp.Diff([]string{"write " + plistPath, "write " + darwinConfig}, take(t, steps, err)); diff != "" {
		t.Errorf("the steps (-want +got): %s", diff)
	}
	var plist struct {
		Dict struct {
			Keys    []string `xml:"key"`
			Strings []string `xml:"string"`
			Program []string `xml:"array>string"`
		} `xml:"dict"`
	}
	if err := xml.Unmarshal([]byte(read(t, m, plistPath)), &plist); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/usr/local/bin/taskengine", "run", "-c", darwinConfig}, plist.Dict.Program); diff != "" {
		t.Errorf("the command (-want +got): %s", diff)
	}
	if diff := cmp.Diff([]string{"taskengine", "anna", darwinData, darwinData + "/taskengine.log"}, plist.Dict.Strings); diff != "" {
		t.Errorf("the label, the user, the folder and the log (-want +got): %s", diff)
	}
	if !slices.Contains(plist.Dict.Keys, "UserName") {
		t.Errorf("the keys are %q", plist.Dict.Keys)
	}
	if !strings.Contains(read(t, m, darwinConfig), "path: "+darwinData+"/data}") {
		t.Error("the configuration has another folder")
	}
	if s, err := m.Status(); err != nil || !s.Current || s.Active != "unknown" {
		t.Errorf("the status is %+v, %v", s, err)
	}
	steps, err = m.Uninstall(false)
	if take(t, steps, err); m.has(plistPath) || !m.has(darwinConfig) {
		t.Error("it does not remove the service alone")
	}
}

func TestAServiceThatLaunchdHasIsTakenFromItFirst(t *testing.T) {
	for name, loaded := range map[string]error{"loaded": nil, "not loaded": errors.New("exit status 113")} {
		l := launchd{&Machine{
			System: "darwin", Program: "/usr/local/bin/taskengine", User: "anna",
			Run: func(string, ...string) (string, error) { return "", loaded },
		}}
		bootout := []string{"launchctl bootout " + launchdName}
		if loaded != nil {
			bootout = nil
		}
		if diff := cmp.Diff(bootout, commands(l.uninstall())); diff != "" {
			t.Errorf("uninstall of one that is %s (-want +got): %s", name, diff)
		}
		steps, err := l.install()
		want := append(slices.Clone(bootout), "mkdir -p "+darwinData, "chown anna "+darwinData, "launchctl bootstrap system "+plistPath)
		if diff := cmp.Diff(want, commands(steps)); err != nil || diff != "" {
			t.Errorf("install over one that is %s: %v (-want +got): %s", name, err, diff)
		}
	}
}

func TestAMessageOfSystemctlIsNoState(t *testing.T) {
	for out, want := range map[string]string{
		"disabled\n": "disabled", "not-found\n": "not-found", "": "unknown",
		"System has not been booted with systemd as init system (PID 1).\n": "unknown",
	} {
		m := &Machine{Run: func(string, ...string) (string, error) { return out, errors.New("exit status 1") }}
		if got := m.state("systemctl"); got != want {
			t.Errorf("the state in %q is %s, want %s", out, got, want)
		}
	}
}

func TestAFailedStepNamesItselfAndTheOutput(t *testing.T) {
	m, _ := machine(t, "linux")
	if err := m.run("systemctl", "enable").Do(); err == nil || err.Error() != "run systemctl enable: exit status 1: disabled" {
		t.Errorf("the error is %v", err)
	}
	m.Root = filepath.Join(m.Root, "file")
	if err := os.WriteFile(m.Root, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.write(unitPath, "").Do(); err == nil || !strings.HasPrefix(err.Error(), "write "+unitPath) {
		t.Errorf("the error is %v", err)
	}
}
