package chart

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
)

var update = flag.Bool("update", false, "write the rendered files")

const chartFolder = "../../deploy/helm/taskengine"

// files returns the file that is rendered from each file of values, by their paths: the manifests for clusters without Helm, and one for
// each file in the folder ci of the chart.
func files(t *testing.T) map[string]string {
	all := map[string]string{"../../deploy/kubernetes/embedded.yaml": "testdata/embedded.yaml", "../../deploy/kubernetes/postgres.yaml": "testdata/postgres.yaml"}
	found, err := filepath.Glob(filepath.Join(chartFolder, "ci", "*-values.yaml"))
	if err != nil || len(found) < 5 {
		t.Fatal("the chart has too few files of values", found, err)
	}
	for _, path := range found {
		all["../../deploy/rendered/"+strings.TrimSuffix(filepath.Base(path), "-values.yaml")+".yaml"] = path
	}
	return all
}

func TestTheRenderedFilesAreThoseOfTheChart(t *testing.T) {
	sum := checksum(t)
	for _, path := range slices.Sorted(maps.Keys(files(t))) {
		from := files(t)[path]
		t.Run(filepath.Base(path), func(t *testing.T) {
			objects := render(t, from)
			for _, o := range objects {
				checkObject(t, o)
			}
			text := fmt.Sprintf("# Written by make chart from deploy/helm/taskengine (%s).\n---\n%s", sum, strings.Join(objects, "---\n"))
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != text {
				t.Errorf("%s is not what the chart gives for %s (%v); run make chart", path, from, err)
			}
		})
	}
}

func TestHelmFindsNothingWrongWithTheChart(t *testing.T) {
	for _, from := range files(t) {
		values, err := chartutil.ReadValuesFile(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.All(chartFolder, values, "tasks", true).Messages {
			if !strings.Contains(m.Err.Error(), "icon is recommended") {
				t.Errorf("with %s: %v", from, m)
			}
		}
	}
}

func TestTheChartRefusesUnknownValues(t *testing.T) {
	for _, wrong := range []string{"storage: {drive: bolt}", "storage: {driver: mysql}", "token: {secret: a}", "keda: {scaledObjects: [{name: a}]}"} {
		values, err := chartutil.ReadValues([]byte(wrong))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rendered(values); err == nil {
			t.Errorf("the chart takes %s", wrong)
		}
	}
}

func TestTheAdminListenerStaysWithinTheCluster(t *testing.T) {
	values, err := chartutil.ReadValues([]byte(`{service: {type: LoadBalancer}, keda: {enabled: true, scaledObjects: [{name: a, target: {name: a}, type: a, targetValue: 1}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := rendered(values)
	if err != nil {
		t.Fatal(err)
	}
	open, inside, _ := strings.Cut(out["taskengine/templates/service.yaml"], "\n---\n")
	if strings.Contains(open, "7421") || !strings.Contains(open, "7420") || !strings.Contains(inside, "7421") {
		t.Errorf("the services are\n%s\n---\n%s", open, inside)
	}
	if !strings.Contains(out["taskengine/templates/scaledobject.yaml"], "scalerAddress: taskengine-nodes.default.svc:7421\n") {
		t.Errorf("KEDA is given\n%s", out["taskengine/templates/scaledobject.yaml"])
	}
}

// render returns the objects that the chart gives for a file of values, in the order of their templates.
func render(t *testing.T, from string) (objects []string) {
	t.Helper()
	values, err := chartutil.ReadValuesFile(from)
	if err != nil {
		t.Fatal(err)
	}
	out, err := rendered(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for o := range strings.SplitSeq("\n"+out[name], "\n---\n") {
			if o = strings.TrimSpace(o); o != "" {
				objects = append(objects, o+"\n")
			}
		}
	}
	return objects
}

func rendered(values chartutil.Values) (map[string]string, error) {
	chart, err := loader.LoadDir(chartFolder)
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "taskengine", Namespace: "default", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// checksum returns the checksum of the files of the chart and of the values. deploy_test.go computes it as well.
func checksum(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	for _, folder := range []string{chartFolder, "testdata"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			name, _ := filepath.Rel(folder, path)
			fmt.Fprintf(&all, "%s %x\n", filepath.ToSlash(name), sha256.Sum256(content))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%.12x", sha256.Sum256(all.Bytes()))
}
