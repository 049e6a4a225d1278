package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var dist = flag.String("dist", "", "check the release in this folder")

// cycloneDX is the JSON schema of CycloneDX 1.5, which the module of its Go library has.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for id, name := range map[string]string{"bom-1.5.schema.json": "", "spdx.schema.json": "", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		if name == "" {
			name = id
		}
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+id, decode(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.5.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// A bill is valid by the schema, and the library of CycloneDX reads all of it.
func TestDescribe_Schema(t *testing.T) {
	testenv.SkipShort(t)
	info, err := buildinfo.ReadFile(testenv.Fluxgate(t))
	if err != nil {
		t.Fatal(err)
	}
	d := describe(info, "1.2.3", "react 19.2.0: MIT\n")
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	schema := cycloneDX(t)
	if err := schema.Validate(decode(t, text)); err != nil {
		t.Error(err)
	}
	var bom cyclonedx.BOM
	if err := json.Unmarshal(text, &bom); err != nil || bom.SpecVersion != cyclonedx.SpecVersion1_5 || len(*bom.Components) != len(d.Components) {
		t.Errorf("the library reads %v, %d components: %v", bom.SpecVersion, len(*bom.Components), err)
	}
	if schema.Validate(decode(t, bytes.Replace(text, []byte(`"library"`), []byte(`"book"`), 1))) == nil {
		t.Error("a component of an unknown type is valid")
	}
}

// A release has a valid bill for every platform, and checksums.txt has every file that
// users download. make release-snapshot runs it.
func TestRelease(t *testing.T) {
	if *dist == "" {
		t.Skip("make release-snapshot passes -dist")
	}
	schema := cycloneDX(t)
	checksums, err := os.ReadFile(filepath.Join(*dist, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = *dist
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for pattern, want := range map[string]int{"*.tar.gz": 4, "*.zip": 2, "*.deb": 2, "*.cdx.json": 6} {
		files, err := filepath.Glob(filepath.Join(*dist, pattern))
		if err != nil || len(files) != want {
			t.Errorf("%s: %v, %v, want %d", pattern, files, err, want)
		}
		for _, file := range files {
			if !strings.Contains(string(checksums), "  "+filepath.Base(file)+"\n") {
				t.Errorf("checksums.txt does not have %s", file)
			}
			if text, err := os.ReadFile(file); pattern == "*.cdx.json" && (err != nil || schema.Validate(decode(t, text)) != nil) {
				t.Errorf("%s: %v, %v", file, err, schema.Validate(decode(t, text)))
			}
		}
	}
}
