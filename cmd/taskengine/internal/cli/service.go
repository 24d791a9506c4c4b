package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/service"
)

// serviceFlags are the flags of the commands about the service of this machine.
type serviceFlags struct {
	root string
	dry  bool
}

func (f *serviceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.root, "root", "", "the folder of a system that does not run, such as that of an image, in place of this machine")
}

func (f *serviceFlags) addDry(cmd *cobra.Command) {
	f.add(cmd)
	cmd.Flags().BoolVar(&f.dry, "dry-run", false, "only print the steps, with the content of files that would be written")
}

func newServiceInstall(a *app) *cobra.Command {
	var f serviceFlags
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install a node as a service of systemd or launchd, and have it start with the machine",
		Long: `Install a node as a service of systemd (Linux) or launchd (macOS), for machines without a package
of taskengine, and print the steps. On Linux the node runs as the user taskengine, which is
made, on macOS as the user who calls sudo. An earlier service is replaced. A configuration that
exists is kept. The service starts with the machine; under systemd, systemctl start taskengine
starts it now.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.changeService(&f, (*service.Machine).Install)
		},
	}
	f.addDry(cmd)
	return cmd
}

func newServiceUninstall(a *app) *cobra.Command {
	var f serviceFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service that service install has made, and remove it",
		Long: `Stop the service that taskengine service install has made, remove it, and print the steps. The
configuration, the tasks and the user stay.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.changeService(&f, (*service.Machine).Uninstall)
		},
	}
	f.addDry(cmd)
	return cmd
}

func newServiceStatus(a *app) *cobra.Command {
	var f serviceFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether a service is installed, starts with the machine, and runs",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m, err := a.machine(&f)
			if err != nil {
				return err
			}
			found, err := m.Status()
			if err != nil {
				return exit.With(exit.Failure, err)
			}
			return a.showService(found)
		},
	}
	f.add(cmd)
	return cmd
}

// machine returns the machine of the flags.
func (a *app) machine(f *serviceFlags) (*service.Machine, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err == nil && f.root != "" {
		f.root, err = filepath.Abs(f.root)
	}
	if err != nil {
		return nil, exit.Errorf(exit.Failure, "find the program: %w", err)
	}
	return &service.Machine{
		System: runtime.GOOS, Root: f.root, Program: program, MayWrite: os.Geteuid() == 0, User: a.getenv("SUDO_USER", ""),
		Run: func(name string, args ...string) (string, error) {
			out, err := exec.Command(name, args...).CombinedOutput()
			return string(out), err
		},
	}, nil
}

// changeService takes the steps of a change and prints each.
func (a *app) changeService(f *serviceFlags, plan func(m *service.Machine, dry bool) ([]service.Step, error)) error {
	m, err := a.machine(f)
	if err != nil {
		return err
	}
	steps, err := plan(m, f.dry)
	if err != nil {
		return exit.With(exit.Failure, err)
	}
	for _, step := range steps {
		if err := a.showStep(step, f.dry); err != nil {
			return err
		}
		if f.dry {
			continue
		}
		if err := step.Do(); err != nil {
			return exit.Errorf(exit.Failure, "%w; the steps above are done, and may be repeated", err)
		}
	}
	return nil
}

func (a *app) showStep(s service.Step, dry bool) error {
	if a.json() {
		return a.printJSON(jsonObject{{"step", s.Action}, {"what", s.What}, {"content", s.Content}, {"dry_run", dry}})
	}
	text := string(s.Action) + " " + clean(s.What) + "\n"
	if dry {
		for line := range strings.Lines(s.Content) {
			text += "    " + clean(strings.TrimSuffix(line, "\n")) + "\n"
		}
	}
	_, err := fmt.Fprint(a.stdout, text)
	return err
}

func (a *app) showService(s *service.Status) error {
	by := "taskengine service install"
	if s.Package {
		by = "package"
	}
	if a.json() {
		return a.printJSON(jsonObject{
			{"file", s.Unit},
			{"package", s.Package},
			{"current", s.Current},
			{"config", s.Config},
			{"enabled", s.Enabled},
			{"active", s.Active},
		})
	}
	if err := a.printTable([]string{"FILE", "BY", "ENABLED", "ACTIVE", "CONFIG"}, [][]string{{s.Unit, by, s.Enabled, s.Active, s.Config}}, "BY", "CONFIG"); err != nil {
		return err
	}
	if !s.Current {
		a.note("%s is not that of this program: another version or program has written it, or it was changed", s.Unit)
	}
	return nil
}
