package main

import (
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

// local are flags that are about one run and no settings.
var local = []string{"config", "help", "version"}

// configure sets every flag that the command line left out from CKPTPLAN_* variables, else from the config file. All
// values take the same way as on the command line. Without either, nothing is read.
func configure(cmd *cobra.Command, g *globals) error {
	file, err := configFile(cmd, g)
	if err != nil {
		return err
	}
	if file == "" && !slices.ContainsFunc(g.environ, func(v string) bool { return strings.HasPrefix(v, envPrefix+"_") }) {
		return nil
	}
	v := viper.New()
	v.SetEnvPrefix(envPrefix)
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if file != "" {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return &inputError{fmt.Errorf("%s: %w", file, err)}
		}
	}
	if err := onlySettings(cmd.Root(), v.AllKeys(), file); err != nil {
		return err
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
		if e := cmd.Flags().Set(f.Name, text); e != nil {
			err = wrongSetting(f.Name, file, g.environ, plainValue(e))
		}
	})
	return err
}

// key is the name of a flag as the config file has it: keep-logits or keep_logits.
func key(v *viper.Viper, flag string) string {
	if under := strings.ReplaceAll(flag, "-", "_"); v.InConfig(under) {
		return under
	}
	return flag
}

// wrongSetting says where a value that a flag refused is from.
func wrongSetting(flag, file string, environ []string, err error) error {
	variable := envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, variable+"=") }) {
		return usagef("%s: %w", variable, err)
	}
	return &inputError{fmt.Errorf("%s: %s: %w", file, flag, err)}
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
			return "", usagef("--config: %w", err)
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

// onlySettings refuses keys that are no flag of any command.
func onlySettings(root *cobra.Command, keys []string, file string) error {
	known := settings(root)
	for _, k := range keys {
		if !slices.Contains(known, strings.ReplaceAll(k, "_", "-")) {
			if near := nearest.Name(k, known); near != "" {
				return &inputError{fmt.Errorf("%s: unknown key %q (did you mean %q?)", file, k, near)}
			}
			return &inputError{fmt.Errorf("%s: unknown key %q: known are %s", file, k, strings.Join(known, ", "))}
		}
	}
	return nil
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
