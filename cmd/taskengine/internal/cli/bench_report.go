package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/bench/report"
	benchresult "github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func newBenchReport(a *app) *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use:   "report RESULTS.json...",
		Short: "Draw results of measurements on one HTML page",
		Long: `Draw results of measurements on one self-contained HTML page: latency percentiles, throughput
over time, latency against load with its knee, subjects side by side, costs and checks. Several
files make one page.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			if page == "" {
				return exit.Errorf(exit.Usage, "--html FILE is missing: where is the page to go? (- is standard output)")
			}
			var all []*benchresult.Result
			for _, name := range files {
				results, err := readResults(name)
				if err != nil {
					return err
				}
				all = append(all, results...)
			}
			return a.writePage(page, all)
		},
	}
	cmd.Flags().StringVar(&page, "html", "", "the file to write the page to; - is standard output")
	return cmd
}

// readResults reads a file of results.
func readResults(name string) ([]*benchresult.Result, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results, err := benchresult.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; pass a file of results that taskengine bench run has written", name, err)
	}
	return results, nil
}

func (a *app) writePage(name string, results []*benchresult.Result) error {
	if name == "-" {
		return report.Write(a.stdout, results)
	}
	if err := writeFile(name, func(w io.Writer) error { return report.Write(w, results) }); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	a.note("%s has a page of %s", name, benchresult.Counted(len(results), "result"))
	return nil
}
