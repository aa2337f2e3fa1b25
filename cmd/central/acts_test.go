package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"grattoir/sync/central"
)

// TestEveryCommandSaysWhatItIsToCentral: each command of the tree has a class, no class is of
// a command that is not there, and whoever acts can be named.
func TestEveryCommandSaysWhatItIsToCentral(t *testing.T) {
	left := classes()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		words := wordsOf(cmd)
		c, ok := left[words]
		delete(left, words)
		if !ok {
			if !cmd.HasSubCommands() {
				t.Errorf("central %s has no class", words)
			}
			return
		}
		if got := class(cmd.Annotations[classKey]); got != c {
			t.Errorf("central %s is noted as %q, its class is %s", words, got, c)
		}
		if (c == acts || c == gives) && cmd.Flags().Lookup("operator") == nil {
			t.Errorf("central %s does something and cannot say who did it", words)
		}
		if c == itself && !strings.HasPrefix(words, "user ") && !strings.HasPrefix(words, "identity ") {
			t.Errorf("central %s is said to be written down by central itself, which does so for users and identities alone", words)
		}
	}
	walk(command())
	for words := range left {
		t.Errorf("central %s has a class, and is no command", words)
	}
}

// run runs a command as a person types it.
func run(t *testing.T, args ...string) error {
	t.Helper()
	root := command()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	return root.ExecuteContext(t.Context())
}

// TestWhatCommandsDoStandsInTheAudit: an act in the transaction of its change, one that is
// refused, one that finds everything as it is wanted, a file that is given away and one that
// was not, each with who did it; a look writes nothing, and a command that is wrongly said to
// look cannot change anything.
func TestWhatCommandsDoStandsInTheAudit(t *testing.T) {
	dir := t.TempDir() + "/c"
	must := func(args ...string) {
		t.Helper()
		if err := run(t, append(args, "--data", dir)...); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	fails := func(args ...string) {
		t.Helper()
		if err := run(t, append(args, "--data", dir)...); err == nil {
			t.Errorf("%q is done", args)
		}
	}
	must("terminal", "add", "shop-0001", "--operator", "anne")
	must("terminal", "shop", "shop-0001", "tabac-12")
	must("terminal", "list")
	fails("terminal", "region", "nobody", "bzh", "--operator", "anne")
	fails("pack", "deliver", "399", "1", "--to", "shop-0001")
	must("report", "sync", "--format", "csv")
	must("backup", dir+"-copy", "--operator", "anne")
	fails("backup", dir+"-copy")
	list := newestActs(t, dir)
	me := machineUser()
	want := []string{"terminal-add|anne, " + me + "|shop-0001", "terminal-shop|" + me + "|shop-0001 tabac-12", "terminal-region-refused|anne, " + me + "|nobody bzh", "pack-deliver-refused|" + me + "|399 1 to=shop-0001",
		"report-sync|" + me + "|format=csv", "backup|anne, " + me + "|" + dir + "-copy", "backup|" + me + "|" + dir + "-copy", "backup-refused|" + me + "|"}
	if !slices.Equal(list, want) {
		t.Errorf("the audit has\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
	}
	if err := run(t, "restore", dir+"-copy", "--data", dir+"-new"); err != nil {
		t.Fatal(err)
	}
	if list := newestActs(t, dir+"-new"); list[len(list)-1] != "restore|"+me+"|"+dir+"-copy" {
		t.Errorf("the restored central has %q", list)
	}

	root := command()
	shop, _, err := root.Find([]string{"terminal", "shop"})
	if err != nil {
		t.Fatal(err)
	}
	shop.Annotations[classKey] = string(looks)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs([]string{"terminal", "shop", "shop-0001", "tabac-13", "--data", dir})
	if err := root.ExecuteContext(t.Context()); err == nil {
		t.Error("a command that is said to look alone has changed something")
	}
	delete(shop.Annotations, classKey)
	if err := root.ExecuteContext(t.Context()); err == nil {
		t.Error("a command without a class has done something")
	}
}

// newestActs are the lines of a central's audit, oldest first, and its chain is whole.
func newestActs(t *testing.T, dir string) (list []string) {
	t.Helper()
	c, err := central.Open(t.Context(), central.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.Audit(t.Context(), func(a central.AuditLine) error {
		list = append(list, a.Act+"|"+a.Operator+"|"+a.About)
		return nil
	}); err != nil {
		t.Error(err)
	}
	return list
}
