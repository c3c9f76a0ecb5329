package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"ckptplan/internal/nearest"
)

// envPrefix begins the names of variables that set flags: CKPTPLAN_KEEP_LOGITS is --keep-logits.
const envPrefix = "CKPTPLAN"

// local are flags that concern a single run and cannot be settings.
var local = []string{"config", "help", "version"}

// configure sets every flag that the command line left out from CKPTPLAN_* variables, else from the config file. Values
// are parsed as on the command line. Without either it reads no file.
func configure(cmd *cobra.Command, g *globals) error {
	file, err := configFile(cmd, g)
	if err != nil {
		return err
	}
	if file == "" && !slices.ContainsFunc(g.environ, func(v string) bool { return strings.HasPrefix(v, envPrefix+"_") }) {
		return nil
	}
	if err := misspelt(cmd.Root(), g.environ); err != nil {
		return err
	}
	v := viper.New()
	v.SetEnvPrefix(envPrefix)
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	v.SetConfigType("yaml")
	written, err := readSettings(cmd.Root(), file)
	if err != nil {
		return err
	}
	if err := v.ReadConfig(bytes.NewReader(written.src)); err != nil {
		return &inputError{fmt.Errorf("%s: %w", file, err)}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value := v.Get(key(v, f.Name))
		if err != nil || f.Changed || value == nil || slices.Contains(local, f.Name) {
			return
		}
		text := v.GetString(key(v, f.Name))
		if _, list := f.Value.(pflag.SliceValue); list {
			text = strings.Join(v.GetStringSlice(key(v, f.Name)), ",")
		}
		if e := cmd.Flags().Set(f.Name, text); e == nil {
			return
		} else if variable := variableOf(f.Name, g.environ); variable != "" {
			err = usagef("%s: %w", variable, plainValue(e))
		} else {
			written.wrong(f.Name, plainValue(e))
		}
	})
	if err != nil {
		return err
	}
	return written.err()
}

// key is the name of a flag as the config file has it: keep-logits or keep_logits.
func key(v *viper.Viper, flag string) string {
	if under := strings.ReplaceAll(flag, "-", "_"); v.InConfig(under) {
		return under
	}
	return flag
}

// variableOf is the variable of the environment that sets a flag, "" if none does.
func variableOf(flag string, environ []string) string {
	variable := envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, variable+"="); ok && value != "" {
			return variable
		}
	}
	return ""
}

// misspelt refuses a CKPTPLAN_* variable that is nearly a setting: otherwise a typo would be ignored.
// Variables with other names belong to other programs.
func misspelt(root *cobra.Command, environ []string) error {
	known := append(settings(root), local...)
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		flag, ok := strings.CutPrefix(name, envPrefix+"_")
		if flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-")); !ok || slices.Contains(known, flag) {
			continue
		}
		if near := nearest.Name(flag, known); near != "" {
			return usagef("%s is not a setting (did you mean %s_%s?)", name, envPrefix, strings.ToUpper(strings.ReplaceAll(near, "-", "_")))
		}
	}
	return nil
}

// configFile is --config, else CKPTPLAN_CONFIG, else the user's own file if there is one, else "".
func configFile(cmd *cobra.Command, g *globals) (string, error) {
	file := g.config
	for _, e := range g.environ {
		if value, ok := strings.CutPrefix(e, envPrefix+"_CONFIG="); ok && file == "" {
			file = value
		}
	}
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return "", usagef("config file %s: %w", file, cause(err))
		}
		return file, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", nil // no home folder: no file
	}
	file = filepath.Join(dir, "ckptplan", "config.yaml")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, nil
}

// settings are the flags of all commands, sorted.
func settings(root *cobra.Command) []string {
	var names []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "completion" && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(root)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return slices.Contains(local, n) })
}
