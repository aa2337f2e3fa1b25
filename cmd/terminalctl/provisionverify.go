package main

import "github.com/spf13/cobra"

func provisionVerifyCommand() *cobra.Command { return &cobra.Command{Use: "verify"} }
