variable "region" {
  description = "The region."
  type        = string
  default     = "eu-central-1"
}

variable "availability_zones" {
  description = "Two availability zones of the region."
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b"]

  validation {
    condition     = length(var.availability_zones) == 2
    error_message = "availability_zones are two: the example lays out two subnets of each kind."
  }
}

variable "name" {
  description = "Names the installation."
  type        = string
  default     = "event-gateway"
}

variable "image" {
  description = "Your image, in a registry that ECS can read."
  type        = string
}

variable "zone_name" {
  description = "A public Route 53 zone that you have, such as example.com."
  type        = string
}

variable "hostname" {
  description = "The host to serve, such as hooks.example.com."
  type        = string
}

variable "single_nat_gateway" {
  description = "One NAT gateway for all availability zones: cheaper, and one thing less to fail over."
  type        = bool
  default     = true
}

variable "cluster_mode" {
  description = "Valkey as a Cluster."
  type        = bool
  default     = false
}
