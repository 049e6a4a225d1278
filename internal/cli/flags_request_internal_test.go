package cli

import (
	"reflect"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The flags describe everything that a request has but its limit, which comes from Envoy
// alone, and whether it is a peek, which the command says.
func TestRequestFlags_EveryField(t *testing.T) {
	values := map[string]string{"string": "a", "int64": "1", "stringArray": "a=b", "stringToString": "a=b", "stringToInt64": "a=1"}
	var f requestFlags
	cmd := new(cobra.Command)
	f.flags(cmd, "")
	f.costFlags(cmd)
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		value := values[flag.Value.Type()]
		if flag.Name == "ip" {
			value = "192.0.2.1"
		}
		if err := flag.Value.Set(value); err != nil {
			t.Errorf("--%s %s: %v", flag.Name, value, err)
		}
	})
	req, err := f.read()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := 0, reflect.ValueOf(*req); i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Limit" && name != "Peek" && name != "EndUnknown" {
			t.Errorf("no flag sets %s", name)
		}
	}
}
