package cli

import (
	"regexp"
	"slices"

	"github.com/spf13/cobra"
)

// Misnamed lists what a text names as commands of a group and what is none: the second
// word after a group that has no such command. It is for the tests of texts that send
// people to a command. Words after no command of the program are taken for prose.
func Misnamed(program *cobra.Command, text string) (wrong []string) {
	pattern := regexp.MustCompile(`\b` + program.Name() + ` ([a-z][a-z-]*) ([a-z][a-z-]*)`)
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		group := named(program, m[1])
		if group != nil && group.HasAvailableSubCommands() && named(group, m[2]) == nil && !slices.Contains(wrong, m[0]) {
			wrong = append(wrong, m[0])
		}
	}
	return wrong
}

func named(of *cobra.Command, name string) *cobra.Command {
	for _, c := range of.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}
