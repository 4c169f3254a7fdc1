//! The macros: a section and all that is made from it, and a type of a few words.

/// Declares a parameter's type that is one of a few words.
#[macro_export]
macro_rules! choice {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$help:meta])* $Word:ident = $word:literal,)+ }) => {
        $crate::words! {
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
            pub enum $Name {
                $($(#[$help])* $Word = $word,)+
            }
        }

        impl $Name {
            /// All of them.
            pub const ALL: &'static [$Name] = &[$($Name::$Word),+];
        }

        impl $crate::parameters::Value for $Name {
            type Bound = Self;
            const QUANTITY: &'static str = "choice";
            fn plain(self) -> $crate::parameters::Plain {
                $crate::parameters::Plain::Word(match self { $($Name::$Word => $word,)+ })
            }
            fn is_within(&self, bounds: &impl std::ops::RangeBounds<Self>) -> bool {
                bounds.contains(self)
            }
        }
    };
}

/// An enum whose variants plans name by words.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$help:meta])* $Word:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $Name {
            $($(#[$help])* #[serde(rename = $word)] $Word,)+
        }
    };
}

#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$help:meta])* $Word:ident = $word:literal,)+ }) => {
        $(#[$about])*
        pub enum $Name {
            $($(#[$help])* $Word,)+
        }
    };
}

/// What plans hold is written and read with serde, where this crate has that feature; whichever crate declares it.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! in_plans {
    ($item:item) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $item
    };
}

#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! in_plans {
    ($item:item) => {
        $item
    };
}

/// Declares the parameters of a section. Each has a help text (its doc comment), a type, a default, bounds
/// (`in` a range, or `of` a list of choices, or neither), and the source of the default:
///
/// ```
/// use tailback_proto::parameters::{Declared, SHARE};
/// tailback_proto::parameters! {
///     /// A controller of an example.
///     pub struct ExampleParameters {
///         /// Share of the rate that a mark takes.
///         decrease: f64 = 0.5, in SHARE, source "RFC 3168, section 6.1.2: half";
///     }
/// }
/// assert!(ExampleParameters { decrease: 2.0 }.check().is_err());
/// assert_eq!(ExampleParameters::describe()[0].name, "decrease");
/// ```
///
/// In place of a default, `or null` or `or auto` says that scenarios may leave the value to whoever makes the plan, and with
/// neither they must give it. Such a section has no [`Default`].
///
/// A section of a plan may hold more than scenarios set. What is worked out stands in a second block, `worked out { ... }`, with
/// plain fields; such a section has no [`Default`] either, and is not [`Copy`].
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        pub struct $Name:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty $(= $default:expr)?
                $(, or $word:ident)?
                $(, in $range:expr)?
                $(, of $choices:expr)?
                $(, source $source:expr)?;
            )*
        }
    ) => {
        $crate::in_plans! {
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $Name {
                $( $(#[doc = $help])+ pub $field: $type, )*
            }
        }

        $crate::default_of! { $Name { $( $field $(= $default)?; )* } }

        $crate::declared! {
            $(#[doc = $about])+
            $Name {
                $( $(#[doc = $help])+ $field: $type $(= $default)? $(, or $word)? $(, in $range)? $(, of $choices)? $(, source $source)?; )*
            }
        }
    };
    (
        $(#[doc = $about:literal])+
        pub struct $Name:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty $(= $default:expr)?
                $(, or $word:ident)?
                $(, in $range:expr)?
                $(, of $choices:expr)?
                $(, source $source:expr)?;
            )*
        }
        worked out {
            $( $(#[$meta:meta])+ $other:ident: $other_type:ty; )*
        }
    ) => {
        $crate::in_plans! {
            $(#[doc = $about])+
            #[derive(Clone, Debug)]
            pub struct $Name {
                $( $(#[doc = $help])+ pub $field: $type, )*
                $( $(#[$meta])+ pub $other: $other_type, )*
            }
        }

        $crate::declared! {
            $(#[doc = $about])+
            $Name {
                $( $(#[doc = $help])+ $field: $type $(= $default)? $(, or $word)? $(, in $range)? $(, of $choices)? $(, source $source)?; )*
            }
        }
    };
}

/// [`Declared`](crate::parameters::Declared) of a section.
#[doc(hidden)]
#[macro_export]
macro_rules! declared {
    (
        $(#[doc = $about:literal])+
        $Name:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty $(= $default:expr)?
                $(, or $word:ident)?
                $(, in $range:expr)?
                $(, of $choices:expr)?
                $(, source $source:expr)?;
            )*
        }
    ) => {
        impl $crate::parameters::Declared for $Name {
            const ABOUT: &'static str = concat!($($about),+);

            fn describe() -> Vec<$crate::parameters::Parameter> {
                #[allow(unused_imports)]
                use $crate::parameters::{Parameter, Value};
                vec![$({
                    #[allow(unused_mut)]
                    let mut parameter = Parameter::new::<$type>(stringify!($field), concat!($($help),+));
                    $( parameter = parameter.or({ let value: $type = $default; value.plain() }); )?
                    $( parameter = parameter.worked_out(stringify!($word)); )?
                    $( parameter = parameter.within::<<$type as Value>::Bound>(&$range); )?
                    $(
                        let choices: &[$type] = &$choices;
                        parameter.choices = choices.iter().map(|choice| choice.plain()).collect();
                    )?
                    $( parameter.source = $source.to_string(); )?
                    parameter
                },)*]
            }

            fn check(&self) -> Result<(), $crate::parameters::Refused> {
                #[allow(unused_imports)]
                use $crate::parameters::{Refused, Value};
                $(
                    $( Refused::unless(self.$field.is_within(&$range), stringify!($field), $crate::parameters::bounds_in_words::<<$type as Value>::Bound>(&$range))?; )?
                    $(
                        let choices: &[$type] = &$choices;
                        Refused::unless(choices.contains(&self.$field), stringify!($field), $crate::parameters::choices_in_words(choices))?;
                    )?
                )*
                Ok(())
            }
        }
    };
}

/// [`Default`] of a section in which everything has one.
#[doc(hidden)]
#[macro_export]
macro_rules! default_of {
    ($Name:ident { $( $field:ident = $default:expr; )* }) => {
        impl Default for $Name {
            fn default() -> Self {
                $Name { $( $field: $default, )* }
            }
        }
    };
    ($Name:ident { $($fields:tt)* }) => {};
}
