package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grattoir/sync/central"
)

// class says what a command is to central, and so what the audit has of it. Each command has
// one: a test walks the tree.
type class string

const (
	// apart: it opens no central.
	apart class = "apart"
	// looks: it reads, and could not change anything if it tried.
	looks class = "looks"
	// acts: it changes something. The audit's line is written in the transaction of the first
	// change, and a second one, NAME-refused or NAME-failed, where it came to nothing.
	acts class = "acts"
	// gives: what it makes leaves central, or lies beside its database, as a file. The line is
	// written before, a second one, NAME-failed, where nothing came of it.
	gives class = "gives"
	// itself: central writes the line with words of its own, in the act's transaction.
	itself class = "itself"
)

// classes are the commands by their words behind central.
func classes() map[string]class {
	list := map[string]class{}
	for c, names := range map[class]string{
		apart: "software sign, game import, game list, game show, game evaluate, key new, block sample, block seal, block cosign, policy sign, policy cosign, policy show, serve, settlement verify",
		looks: "terminal bench, software show, terminal list, terminal show, terminal key, pack list, pack rights, pack risks, reversal list, conflict list, conflict show, conflict recalled, conflict attempts, message list, message readers, " +
			"identity list, identity audit, settlement list, audit list, audit verify, user list, claims waiting, claims list, ca show, catalogue show, software list, policy list, game suspensions, game sales",
		acts: "terminal add, terminal enrol-file, terminal shop, terminal region, terminal recover, terminal suspend, terminal resume, terminal replace, pack deliver, pack activate, pack settle, pack move, pack write-off, " +
			"pack return, pack stolen, pack recover, reversal accept, reversal refuse, conflict inquire, conflict settle, conflict reopen, message send, message withdraw, policy publish, policy withdraw, " +
			"block publish, game close, game suspend, game resume, game end-sales, game resume-sales, settlement close, claims allow, claims free, catalogue publish, software announce, software withdraw, software publish, software roll, software halt, software resume, restore",
		gives:  "report audit, backup, stick make, block pepper, settlement export, ca rotate, report sync, report settlement, report payouts, report prizes, report liability, report inventory, report conflicts, report refusals, report signals, report outages",
		itself: "user add, user role, user password, user suspend, user resume, identity ask, identity agree, identity show, identity erase",
	} {
		for name := range strings.SplitSeq(names, ", ") {
			list[name] = c
		}
	}
	return list
}

// wordsOf are a command's words behind the program's name.
func wordsOf(cmd *cobra.Command) string {
	_, words, _ := strings.Cut(cmd.CommandPath(), " ")
	return words
}

const classKey = "central"

// classify notes each command's class, and gives those that act a flag for who does it.
func classify(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		classify(child)
	}
	c, ok := classes()[wordsOf(cmd)]
	if !ok || cmd.HasSubCommands() && c == "" {
		return
	}
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[classKey] = string(c)
	if (c == acts || c == gives) && cmd.Flags().Lookup("operator") == nil {
		var who string
		cmd.Flags().StringVar(&who, "operator", "", "`name` of who does this, for the audit; without it the account that runs this")
	}
}

// actor names for the audit who does something: the account on this machine, and whom it says
// it acts for.
func actor(cmd *cobra.Command) string {
	who := machineUser()
	if flag := cmd.Flags().Lookup("operator"); flag != nil && flag.Value.String() != "" {
		return flag.Value.String() + ", " + who
	}
	return who
}

// typed is what was asked for, as the audit has it: arguments and flags. Secrets are files, or
// typed unseen; only a database's address can have one in it.
func typed(cmd *cobra.Command) string {
	parts := cmd.Flags().Args()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "operator" && f.Name != "json" && f.Name != "data" && f.Name != "database" {
			parts = append(parts, f.Name+"="+f.Value.String())
		}
	})
	return strings.Join(parts, " ")
}

// audited runs what a command does to central under its class.
func audited(cmd *cobra.Command, c *central.Central, do func(context.Context) error) error {
	ctx, name := cmd.Context(), strings.ReplaceAll(wordsOf(cmd), " ", "-")
	switch class(cmd.Annotations[classKey]) {
	case looks:
		return do(central.Looking(ctx))
	case itself:
		return do(ctx)
	case gives:
		if err := c.Note(ctx, name, actor(cmd), typed(cmd)); err != nil {
			return fmt.Errorf("nothing was done: %w", err)
		}
		return noteOutcome(cmd, c, name, do(ctx))
	case acts:
		act := central.Acting(ctx, name, actor(cmd), typed(cmd))
		err := do(act)
		if central.Acted(act) {
			return noteOutcome(cmd, c, name, err)
		}
		if err == nil { // it found everything as it was asked for
			return c.Note(ctx, name, actor(cmd), typed(cmd))
		}
		if noted := c.Note(context.WithoutCancel(ctx), name+ending(err), actor(cmd), typed(cmd)); noted != nil {
			return errors.Join(err, noted)
		}
		return err
	}
	return fmt.Errorf("%s has no class in acts.go: it is a fault of this program, and nothing was done", cmd.CommandPath())
}

// noteOutcome says behind an act's line that it came to nothing, or not to all.
func noteOutcome(cmd *cobra.Command, c *central.Central, name string, err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, c.Note(context.WithoutCancel(cmd.Context()), name+ending(err), actor(cmd), ""))
}

func ending(err error) string {
	if errors.Is(err, central.ErrRefused) || errors.Is(err, central.ErrNotFound) {
		return "-refused"
	}
	return "-failed"
}
